// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/farcall.h>
#include <farcall/offload/job_state.hpp>

#include <chrono>

/// Functions that convert handles of the C interface to C++ objects, and C++ objects to handles.
namespace farcall::c {

/// Returns the job of the handle `job`. If the handle is NULL, returns the job of the handler that
/// runs on this thread, or else the only job of the process. Throws error if NULL stands for no
/// job, because the process has none, or more than one.
[[nodiscard]] inline detail::job_state& job_of(fc_job* job) {
  return job == nullptr ? detail::current_job() : *reinterpret_cast<detail::job_state*>(job);
}
[[nodiscard]] inline fc_job* handle_of(detail::job_state& job) noexcept {
  return reinterpret_cast<fc_job*>(&job);
}

/// Throws invalid_argument if the program has not set `n`, so that it has no job.
inline void require_node(const fc_node& n) {
  if (n.job == nullptr) [[unlikely]]
    throw invalid_argument("this fc_node is empty; take one from fc_node_at()");
}
[[nodiscard]] inline node node_of(const fc_node& n) {
  require_node(n);
  return {job_of(n.job), n.id};
}

/// Returns the deadline for a timeout of `timeout_ns` nanoseconds from now. Returns no_deadline for
/// a negative timeout.
[[nodiscard]] inline time_point deadline_in(std::int64_t timeout_ns) noexcept {
  return timeout_ns < 0 ? no_deadline : deadline_after(std::chrono::nanoseconds(timeout_ns));
}
[[nodiscard]] inline time_point deadline_of(const fc_node& n) noexcept {
  return n.deadline == 0 ? no_deadline : time_point(clock::duration(n.deadline));
}

/// Bit in fc_node.flags. fc_stoppable() sets this bit in nodes whose calls can be stopped.
inline constexpr std::uint32_t stoppable_flag = 1;

/// Returns the job and the lane with which calls to `n` are made, and the deadline `deadline` of
/// their sending. Throws what require_node() throws. If no lane is open yet, opens one and also
/// throws what opening throws.
[[nodiscard]] inline detail::call_place place_of(const fc_node& n, time_point deadline) {
  require_node(n);
  detail::job_core& job = job_of(n.job);
  am::requester& messages = n.lane != nullptr ? static_cast<const lane*>(n.lane)->messages()
                                              : job.client->lane_to(n.id, deadline);
  return {job, messages, deadline};
}

} // namespace farcall::c
