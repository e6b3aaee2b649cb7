#pragma once

#include <farcall/gpu/grid.hpp>
#include <farcall/gpu/team.hpp>
#include <farcall/gpu/transport/device_api.hpp>
#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/node.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

/// Launches f as a kernel of its own on a device, for work of the whole device. The future is ready
/// when the kernel has ended. Launches of one thread to one device start in order, beside its other
/// calls. `f` returns nothing, and is a device_fn, in which device::this_grid() tells the threads
/// apart. Takes a launch: some microseconds; see fc::device_fn for what takes less. On ordinary
/// nodes one thread runs f. Throws what async() throws.
template <class Place, class F, class... A>
[[nodiscard]] auto async(const Place& place, const grid& shape, const F& /*f*/, A&&... args) {
  static_assert(detail::is_device_fn<F>,
                "farcall: what is launched as a grid is a function, as fc::device_fn<f>");
  return async(place, on_grid<F>{shape}, std::forward<A>(args)...);
}

} // namespace farcall

/// What the host does with a node that is a device, besides calling it. All throw error for a node
/// that is none, or that another process owns.
namespace farcall::device {

/// True for nodes that are GPUs, or emulate one. Never fails.
[[nodiscard]] bool is_device(const node& n);

/// Waits until no worker runs on the device, and so nothing in CUDA waits for one; the next call
/// starts workers again. Throws timeout, naming the node, when a handler does not end in time, and
/// node_failed when the device has failed or was given up: what runs there may never end.
void quiesce(const node& device, std::chrono::nanoseconds within = std::chrono::seconds(10));

/// With `stay`, workers that start from now on no longer leave by themselves when they are idle:
/// calls never wait for a start, and what in CUDA waits for an idle device waits until quiesce().
/// Those that run already leave once, or at a quiesce() before this. For those who know that
/// nothing waits. Throws error for what is no device of this process, as all below do.
void pin_resident(const node& device, bool stay = true);

/// The stream, a cudaStream_t, on which the calling thread's launches on the device run: for
/// libraries, graphs and kernels of one's own. Ready when a launch behind it is. Null for emulated
/// devices. Throws error; see pin_resident().
[[nodiscard]] void* stream(const node& device);
/// The same for the launches of a lane. Throws error; see pin_resident().
[[nodiscard]] void* stream(const lane& to_device);

/// Ready when all is done that has been enqueued in `stream`, a cudaStream_t: no kernel is launched
/// for it, and no thread waits. The stream must exist until then. The call does not block, but
/// waits while the lane is full, in which at most 64 of these and of launches can be under way. On
/// emulated devices `stream` is null, as stream() is, and the calling thread's launches are waited
/// for. Throws what async() throws, and error; see pin_resident(). The future throws remote_error
/// for a stream that is captured.
[[nodiscard]] future<void> when(const node& device, void* stream);
/// The same with a deadline.
[[nodiscard]] future<void> when(const timed_node& device, void* stream);
/// The same by a lane, whose launches are those that an emulated device waits for.
[[nodiscard]] future<void> when(const lane& to_device, void* stream);

/// Calls and launches that the calling thread makes on the device from now on begin only when all
/// that `event`, a cudaEvent_t, has recorded is done. Large copies do not wait. The event may be
/// recorded again, or destroyed, at once; after a timeout, when a later call in the lane has ended.
/// Does not block, but waits while the lane is full. Threads
/// that share a stream of launches also wait with their launches. On emulated devices `event` is
/// null, and nothing is waited for. Throws what sync() throws, and error; see pin_resident().
void wait_event(const node& device, void* event);
/// The same with a deadline for a lane that is full.
void wait_event(const timed_node& device, void* event);
/// The same for calls and launches in a lane.
void wait_event(const lane& to_device, void* event);

/// Part of a device's memory, as a descriptor for who maps it elsewhere: see export_memory().
using memory_handle = cuda::memory_handle;

/// For the untyped rest of export_memory(). Throws error; see there.
[[nodiscard]] std::vector<memory_handle> export_bytes(const node& device,
                                                      const remote_span<const std::byte>& memory);

/// Memory of a GPU for other processes, or libraries, that import it by
/// cuMemImportFromShareableHandle(). The device's memory comes in pieces of 64 MiB: a view has a
/// handle for each piece that it lies in, in order. Whoever has the handle can map the piece, with
/// whatever else lies in it. Throws error for memory that is none of the device's, for emulated
/// devices, and for GPUs and drivers that cannot.
template <class T>
[[nodiscard]] std::vector<memory_handle> export_memory(const node& device,
                                                       const remote_span<T>& memory) {
  return export_bytes(device, remote_span<const std::byte>(memory.node(), memory.address(),
                                                           memory.size_bytes(), memory.mark()));
}

/// Gives the device up: its calls end with node_failed, and what runs there, as a handler that does
/// not end, is not waited for. Only the end of the process takes it off the device. Throws error;
/// see pin_resident().
void give_up(const node& device);

/// How often a worker was started there. Throws error; see pin_resident().
[[nodiscard]] std::uint64_t worker_starts(const node& device);

} // namespace farcall::device
