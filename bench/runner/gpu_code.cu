// SPDX-License-Identifier: Apache-2.0
#include "functions_device.hpp"
#include "gpu_code.hpp"

#include <bench/gpu/bus_floor.hpp>
#include <bench/gpu/select_device.hpp>

#include <farcall/gpu/gpu.hpp>

#include <chrono>
#include <utility>

namespace farcall::tool {
namespace {

template <std::size_t... Bytes>
void try_payloads(const timed_node& target, std::index_sequence<Bytes...> /*sizes*/) {
  ((void)sync(target, pure_fn<offloaded::ends_of_block<Bytes>>, offloaded::some_payload<Bytes>()),
   ...);
}

/// Naming the functions here compiles them for GPUs.
void try_out(const node& target) {
  const timed_node soon = target.within(std::chrono::seconds(20));
  sync(soon, pure_fn<gpu::nothing>);
  sync(soon, device_fn<gpu::nothing>);
  (void)sync(soon, pure_fn<offloaded::add>, 1.0, 2.0);
  try_payloads(soon, offloaded::device_payloads{});
}

std::vector<double> time_flags(std::uint32_t device, std::size_t samples, std::size_t trips) {
  gpu::select_device(static_cast<int>(device));
  return gpu::time_floor_over_bus(samples, trips);
}

void visit_launches(std::uint32_t device, const gpu::launch_visitor& visit) {
  gpu::select_device(static_cast<int>(device));
  gpu::visit_launches(visit);
}

constexpr gpu_code code{&try_out, &time_flags, &visit_launches};
const bool is_linked = [] {
  linked_gpu_code = &code;
  return true;
}();

} // namespace
} // namespace farcall::tool
