// SPDX-License-Identifier: Apache-2.0

// The table of transports: one row for each transport, the preferred ones first. It is defined in
// this file, which belongs to no layer, because some rows contain functions of layers above the
// transports.

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
    // Load UCX only on nodes of a cluster. On other machines, loading it would only make the start
    // of each program slower.
    if (launched_by() != process_manager_kind::none && has_rdma_device())
      add_module_if_present(rows, "ucx");
  } else if (named != "none") {
    add_modules(rows, named, variable);
  }
  return rows;
}

} // namespace

std::span<const transport_entry> transports() {
  // The table is never destroyed, because a job that is a static object may use it until the
  // process ends.
  static const auto* const rows = new std::vector<transport_entry>(make_rows());
  return *rows;
}

} // namespace farcall
