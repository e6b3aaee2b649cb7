// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/job/members.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/job_state.hpp>

#include <functional>

/// Functions that only jobs of equals use.
namespace farcall::detail {

/// Throws error if this process has made or joined a job of equals before. A second one is
/// impossible: all nodes run the same program, so that each of them would also make it.
void require_first();

/// Returns the collectives of a job of equals. Throws error in a plain job, on a thread that did
/// not make the job, and in a handler. `what` names the caller's function, for the error.
[[nodiscard]] collectives& collectives_of(job_state& job, const char* what);

/// Starts watching the other nodes. Calls `joined` for each node that becomes known.
void watch_equals(job_state& job, std::function<void(const card&, const route&)> joined);

/// Registers, on the host, a function that exit() calls. If the job was closed, the function waits
/// until the other nodes have ended; otherwise it ends them.
void watch_exit(job_state& job);

/// Ends the job. All nodes must call this. It returns on all of them once all calls and
/// continuations of the job have ended. Throws error.
void close_equals(job_state& job);

/// Ends the job when its object is destroyed. First closes the job, if it is open and can be
/// closed. Returns false if the memory of the job must not be freed.
[[nodiscard]] bool end_equals(job_state& job) noexcept;

} // namespace farcall::detail
