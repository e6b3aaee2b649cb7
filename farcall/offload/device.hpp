#pragma once

#include <farcall/call/device_team.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/node.hpp>

#include <chrono>
#include <cstdint>
#include <string>

/// What the host does with a node that is a device, besides calling it. All throw error for a node
/// that is none, or that another process owns.
namespace farcall::device {

/// True for nodes that are GPUs, or emulate one.
[[nodiscard]] bool is_device(const node& n);

/// Waits until no worker runs on the device, and so nothing in CUDA waits for one; the next call
/// starts workers again. Throws timeout, naming the node, when a handler does not end in time.
void quiesce(const node& device, std::chrono::nanoseconds within = std::chrono::seconds(10));

/// With `stay`, workers no longer leave by themselves when they are idle: calls never wait for a
/// start, and what in CUDA waits for an idle device waits until quiesce(). For those who know that
/// nothing does.
void pin_resident(const node& device, bool stay = true);

/// The stream, a cudaStream_t, on which the calling thread's launches on the device run: for
/// libraries, graphs and kernels of one's own. Ready when a launch behind it is. Null for emulated
/// devices.
[[nodiscard]] void* stream(const node& device);
/// The same for the launches of a lane.
[[nodiscard]] void* stream(const lane& to_device);

/// Gives the device up: its calls end with node_failed, and what runs there, as a handler that does
/// not end, is not waited for. Only the end of the process takes it off the device.
void give_up(const node& device);

/// How often a worker was started there.
[[nodiscard]] std::uint64_t worker_starts(const node& device);

} // namespace farcall::device
