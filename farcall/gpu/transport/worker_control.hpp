// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/base/bytes.hpp>
#include <farcall/gpu/transport/system_scope.hpp>

#include <cstdint>

/// A worker on a GPU leaves when it has been idle for a while, and the next message starts it
/// again. So operations of CUDA that need an idle device wait only for milliseconds, and not for
/// ever.
///
/// Wake-ups are never lost. A worker that wants to leave first stores the state `leaving`, passes a
/// fence, and polls its lanes once more. A sender writes its message, passes a fence, and reads the
/// worker's state. So either the worker finds the message, or the sender sees that it must start
/// the worker.
namespace farcall::cuda {

enum class worker_state : std::uint32_t {
  left = 0, ///< no worker runs, and the host may start one
  /// The worker runs. The host sets this state before it starts the worker, and a worker that was
  /// about to leave sets it when it decides to stay.
  running = 1,
  leaving = 2, ///< the worker polls a last time before it leaves
};

enum class worker_command : std::uint32_t {
  serve = 0,
  leave = 1, ///< the worker replies to the request that it is serving, and leaves
  /// Like `leave`; in addition, the host sends no more replies, so the worker must not wait for
  /// them.
  end = 2,
};

/// Words about one worker, in memory that host and device share.
struct worker_control {
  // Written by the device.
  alignas(line_bytes) std::uint32_t state;
  std::uint32_t unused;
  // Written by the host.
  alignas(line_bytes) std::uint32_t command;
  std::uint32_t lanes; ///< bit i is set if lane i of this worker is open
};
static_assert(sizeof(worker_control) == 2 * line_bytes);

} // namespace farcall::cuda
