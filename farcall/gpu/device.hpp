// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/async/node.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/gpu/grid.hpp>
#include <farcall/gpu/team.hpp>
#include <farcall/gpu/transport/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

/// Launches f as a separate kernel on a device, for work that uses the whole device. The future is
/// ready when the kernel has ended. Launches of one thread to one device start in order, and run
/// concurrently with the calls that the thread makes to the device. `f` returns nothing, and is a
/// device_fn, in which device::this_grid() returns the place of each thread. A launch takes some
/// microseconds, so a call of a fc::device_fn is faster. On ordinary nodes one thread runs f.
/// Throws the exceptions of async().
template <class Place, class F, class... A>
[[nodiscard]] auto async(const Place& place, const grid& shape, const F& /*f*/, A&&... args) {
  static_assert(detail::is_device_fn<F>,
                "farcall: what is launched as a grid is a function, as fc::device_fn<f>");
  return async(place, on_grid<F>{shape}, std::forward<A>(args)...);
}

} // namespace farcall

/// Operations of the host on a node that is a device, besides calls. Each throws error if the node
/// is not a device, or if another process owns the device.
namespace farcall::device {

/// True if the node is a GPU or an emulated device. Never fails.
[[nodiscard]] bool is_device(const node& n);

/// Waits until no worker runs on the device, so that operations of CUDA that need an idle device
/// don't wait for workers. The next call starts workers again. Throws timeout, naming the node, if
/// a handler does not end in time. Throws node_failed if the device has failed or was given up,
/// because its code may never end.
void quiesce(const node& device, std::chrono::nanoseconds within = std::chrono::seconds(10));

/// If `stay` is true, workers that start from now on keep running while they are idle, so that
/// calls never wait for a worker's start. Operations of CUDA that need an idle device then wait
/// until the program calls quiesce(). A worker that is already running keeps its idle timeout, and
/// so leaves one more time. If `stay` is false, makes the running workers leave, and gives later
/// workers the idle timeout again. Meant for programs in which nothing waits for an idle device.
/// Throws error if the node is no device of this process, like all functions below.
void pin_resident(const node& device, bool stay = true);

/// Returns the stream, a cudaStream_t, in which the calling thread's launches on the device run.
/// Libraries, graphs and the program's own kernels can use this stream. When a launch is done, all
/// work that was put into the stream before the launch is done, too. Returns null for emulated
/// devices. Throws error; see pin_resident().
[[nodiscard]] void* stream(const node& device);
/// Returns the stream of a lane's launches. Throws error; see pin_resident().
[[nodiscard]] void* stream(const lane& to_device);

/// Returns a future that is ready when all work enqueued in `stream`, a cudaStream_t, is done. The
/// future needs neither a kernel nor a waiting thread. The stream must exist until the future is
/// ready. The call blocks only while the lane is full: at most 64 of these calls and launches can
/// be in flight in a lane. On emulated devices `stream` is null, like the result of stream(), and
/// the future waits for the calling thread's launches. Throws the exceptions of async(), and error;
/// see pin_resident(). The future throws remote_error if the stream is being captured.
[[nodiscard]] future<void> when(const node& device, void* stream);
/// Like when() for a node, with a deadline for the call.
[[nodiscard]] future<void> when(const timed_node& device, void* stream);
/// Like when() for a node, but sends in the given lane. On an emulated device the future waits for
/// the lane's launches.
[[nodiscard]] future<void> when(const lane& to_device, void* stream);

/// Delays the calling thread's later calls and launches on the device until all work recorded in
/// `event`, a cudaEvent_t, is done. Large copies are not delayed. After the return, the program may
/// record the event again or destroy it. But if the function throws timeout, the program must wait
/// until a later call in the lane has ended. Blocks only while the lane is full. Launches of other
/// threads in the same stream are delayed too. On emulated devices `event` is null, and the
/// function has no effect. Throws the exceptions of sync(), and error; see pin_resident().
void wait_event(const node& device, void* event);
/// Like wait_event() for a node, with a deadline for the case that the lane is full.
void wait_event(const timed_node& device, void* event);
/// Like wait_event() for a node, but delays calls and launches in the given lane.
void wait_event(const lane& to_device, void* event);

/// Handle of a part of a device's memory: a descriptor by which other processes map the memory.
/// export_memory() returns such handles.
using memory_handle = cuda::memory_handle;

/// Implements export_memory() for elements of any type. Throws error in the same cases.
[[nodiscard]] std::vector<memory_handle> export_bytes(const node& device,
                                                      const remote_span<const std::byte>& memory);

/// Exports memory of a GPU to other processes or libraries, which import it by
/// cuMemImportFromShareableHandle(). The device's memory consists of pieces of 64 MiB. The result
/// has a handle for each piece that the view touches, in order. A process that has a handle can map
/// the whole piece, with all other data in it. Throws error if the memory does not belong to the
/// device, for emulated devices, and for GPUs and drivers without such handles.
template <class T>
[[nodiscard]] std::vector<memory_handle> export_memory(const node& device,
                                                       const remote_span<T>& memory) {
  return export_bytes(device, remote_span<const std::byte>(memory.node(), memory.address(),
                                                           memory.size_bytes(), memory.mark()));
}

/// Gives the device up. Its calls end with node_failed. Code that still runs on it, such as a
/// handler that does not end, is not waited for, and stays on the device until the process ends.
/// Throws error; see pin_resident().
void give_up(const node& device);

/// Returns how often a worker was started on the device. Throws error; see pin_resident().
[[nodiscard]] std::uint64_t worker_starts(const node& device);

} // namespace farcall::device
