#pragma once

namespace farcall::detail {

struct job_state;

/// Ends the job, waits for what its end waits for, and destroys what it is made of; where code of
/// the user's runs on, that stays, which is logged. Nothing to do for null, nor in a child of a
/// fork.
void end_job(job_state* job) noexcept;

} // namespace farcall::detail
