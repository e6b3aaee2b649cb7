// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::detail {

struct job_state;

/// Ends the job as described at job_state::end(), and destroys it. If code of the program still
/// runs, the job stays in memory, which is written to the log. Does nothing for null, and in a
/// forked child.
void end_job(job_state* job) noexcept;

} // namespace farcall::detail
