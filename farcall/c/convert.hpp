#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/farcall.h>
#include <farcall/offload/call.hpp>
#include <farcall/offload/job_state.hpp>

#include <chrono>

/// C's handles as the things that they stand for.
namespace farcall::c {

/// Throws error for NULL where there is no job, or several.
[[nodiscard]] inline detail::job_state& job_of(fc_job* job) {
  return job == nullptr ? detail::current_job() : *reinterpret_cast<detail::job_state*>(job);
}
[[nodiscard]] inline fc_job* handle_of(detail::job_state& job) noexcept {
  return reinterpret_cast<fc_job*>(&job);
}

/// Throws invalid_argument for an fc_node that was never filled in.
inline void require_node(const fc_node& n) {
  if (n.job == nullptr) [[unlikely]]
    throw invalid_argument("this fc_node is empty; take one from fc_node_at()");
}
[[nodiscard]] inline node node_of(const fc_node& n) {
  require_node(n);
  return {job_of(n.job), n.id};
}

/// The point in time that a number of nanoseconds, less than 0 for none, stands for.
[[nodiscard]] inline time_point deadline_in(std::int64_t timeout_ns) noexcept {
  return timeout_ns < 0 ? no_deadline : deadline_after(std::chrono::nanoseconds(timeout_ns));
}
[[nodiscard]] inline time_point deadline_of(const fc_node& n) noexcept {
  return n.deadline == 0 ? no_deadline : time_point(clock::duration(n.deadline));
}

/// What `flags` of an fc_node may have.
inline constexpr std::uint32_t stoppable_flag = 1;

/// Where a call to it goes. Throws as require_node() does, and what opening a lane throws.
[[nodiscard]] inline detail::call_place place_of(const fc_node& n) {
  require_node(n);
  detail::job_core& job = job_of(n.job);
  const time_point deadline = deadline_of(n);
  am::requester& messages = n.lane != nullptr ? static_cast<const lane*>(n.lane)->messages()
                                              : job.client->lane_to(n.id, deadline);
  return {job, messages, deadline};
}

} // namespace farcall::c
