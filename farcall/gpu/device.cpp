// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/gpu/device.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/stream_calls.hpp>
#include <farcall/offload/job_state.hpp>

namespace farcall::device {
namespace {

cuda::cuda_transport& transport_of(const node& n) {
  cuda::cuda_transport* const device =
      n.job() == nullptr ? nullptr : detail::device_of(*detail::state_of(*n.job()).members, n.id());
  if (device == nullptr) {
    throw error(node_text(n.id()) + " is no device of this process; the host of a job owns its " +
                    "devices (cuda:0, cuda-emulated:0)",
                n.id());
  }
  return *device;
}

template <auto Function, class Place>
future<void> launch_with_handle(const node& where, const Place& place, void* handle) {
  // Throw if the node is no device. On a process, the launch below would be an ordinary call of an
  // empty function. The call's future would be ready without any wait for CUDA's stream or event.
  (void)transport_of(where);
  return async(place, grid{}, device_fn<Function>,
               std::uint64_t{reinterpret_cast<std::uintptr_t>(handle)});
}

} // namespace

bool is_device(const node& n) {
  return n.job() != nullptr && is_hosted(detail::state_of(*n.job()).members->card_of(n.id()));
}

void quiesce(const node& device, std::chrono::nanoseconds within) {
  if (!transport_of(device).quiesce(deadline_after(within))) {
    throw timeout("a handler on " + node_text(device.id()) + " has not ended in time, so the " +
                      "device is not idle",
                  device.id());
  }
}

void pin_resident(const node& device, bool stay) { transport_of(device).pin_resident(stay); }

void* stream(const node& device) {
  cuda::cuda_transport& transport = transport_of(device);
  return transport.stream_of(device.job()->client->lane_to(device.id()).ends());
}

void* stream(const lane& to_device) {
  return transport_of(to_device.where()).stream_of(to_device.messages().ends());
}

future<void> when(const node& device, void* stream) {
  return launch_with_handle<&detail::stream_reached>(device, device, stream);
}

future<void> when(const timed_node& device, void* stream) {
  return launch_with_handle<&detail::stream_reached>(device.where(), device, stream);
}

future<void> when(const lane& to_device, void* stream) {
  return launch_with_handle<&detail::stream_reached>(to_device.where(), to_device, stream);
}

void wait_event(const node& device, void* event) {
  launch_with_handle<&detail::event_passed>(device, device, event).get();
}

void wait_event(const timed_node& device, void* event) {
  launch_with_handle<&detail::event_passed>(device.where(), device, event).get();
}

void wait_event(const lane& to_device, void* event) {
  launch_with_handle<&detail::event_passed>(to_device.where(), to_device, event).get();
}

std::vector<memory_handle> export_bytes(const node& device,
                                        const remote_span<const std::byte>& memory) {
  cuda::cuda_transport& transport = transport_of(device);
  if (memory.node() != device.id()) {
    throw error("the memory belongs to " + node_text(memory.node()) + ", not to " +
                    node_text(device.id()),
                device.id());
  }
  return transport.export_memory(memory.address(), memory.size_bytes());
}

void give_up(const node& device) {
  transport_of(device).give_up("it was given up by this program");
}

std::uint64_t worker_starts(const node& device) { return transport_of(device).starts(); }

} // namespace farcall::device
