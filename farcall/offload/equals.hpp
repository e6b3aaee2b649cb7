#pragma once

#include <farcall/job/membership.hpp>
#include <farcall/offload/job_state.hpp>

#include <functional>

/// What a job does only if its nodes are equals.
namespace farcall::detail {

/// Throws error where this process has made or joined a job of equals: the other nodes run the same
/// program, and would make another one each.
void require_first();

/// Watches the other nodes; `joined` takes those in that become known.
void watch_equals(job_state& job, std::function<void(const card&, const route&)> joined);

/// Host: at exit(), ends the others where the job was not closed, else waits for them.
void watch_exit(job_state& job);

/// The collective end: returns on all nodes once nothing is under way any more. Throws error.
void close_equals(job_state& job);

/// The end of the job's object: closes it, unless that was done or cannot be. False when the job
/// has to stay in memory.
[[nodiscard]] bool end_equals(job_state& job) noexcept;

} // namespace farcall::detail
