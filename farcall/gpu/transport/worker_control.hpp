#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstdint>

/// Workers on a GPU have an idle timeout: they leave when they have had nothing to do for a while,
/// and the next message starts them again. So everything in CUDA that waits for a device to become
/// idle waits for milliseconds and not for ever.
///
/// No wake-up is lost: a worker says that it is leaving, passes a fence and looks at its lanes once
/// more; a sender writes its message, passes a fence and looks at what the worker says.
namespace farcall::cuda {

enum class worker_state : std::uint32_t {
  left = 0,    ///< no worker runs; the host may start one
  running = 1, ///< written by the host before the start, and by a worker that stays after all
  leaving = 2, ///< it looks a last time
};

enum class worker_command : std::uint32_t {
  serve = 0,
  leave = 1, ///< when the request that is served has been replied to
  end = 2,   ///< the same, and no reply of the host will come any more
};

/// One worker's words in memory that host and device share.
struct worker_control {
  // Written by the device.
  alignas(line_bytes) std::uint32_t state;
  std::uint32_t unused;
  // Written by the host.
  alignas(line_bytes) std::uint32_t command;
  std::uint32_t lanes; ///< bit i: lane i of this worker was opened
};
static_assert(sizeof(worker_control) == 2 * line_bytes);

} // namespace farcall::cuda
