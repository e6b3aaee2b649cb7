#pragma once

#include "fabric.hpp"

#include <farcall/offload/job.hpp>

#include <memory>

namespace farcall::am2 {

/// The processes of a job of equals. One at a time in a process. Messages are posted calls; those
/// that arrive are given to `to`, on the thread that made the job where that serves calls.
[[nodiscard]] std::unique_ptr<fabric> make_job_fabric(job made, bool has_progress_thread,
                                                      receiver& to);

} // namespace farcall::am2
