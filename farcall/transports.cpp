// The table of transports: one row each, in the order of preference. Here the layers come together,
// so that a row may also be made of what stands above the seam.

#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/transport/entry.hpp>
#include <farcall/job/process_manager.hpp>
#include <farcall/transport/rdma_device.hpp>
#include <farcall/transport/self/entry.hpp>
#include <farcall/transport/shm/entry.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <farcall/transport/transport_module.hpp>

#include <string>
#include <vector>

namespace farcall {

namespace {

std::vector<transport_entry> make_rows() {
  std::vector<transport_entry> rows{
      self::entry(),
      shm::entry(),
      tcp::entry(),
      cuda::gpu_entry(&detail::make_device),
      cuda::emulated_entry(&detail::make_device),
  };
  const std::string variable = settings::variable_of(settings::row("transport-modules"));
  const std::string named = environment(variable.c_str()).value_or("auto");
  if (named == "auto") {
    // Nodes of a cluster, that is: on other machines UCX would cost each program time to load.
    if (launched_by() != process_manager_kind::none && has_rdma_device())
      add_module_if_present(rows, "ucx");
  } else if (named != "none") {
    add_modules(rows, named, variable);
  }
  return rows;
}

} // namespace

std::span<const transport_entry> transports() {
  // Never destroyed: a job refers to it, and may live in a static object.
  static const auto* const rows = new std::vector<transport_entry>(make_rows());
  return *rows;
}

} // namespace farcall
