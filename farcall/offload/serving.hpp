// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/pulled_worker.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_state.hpp>

#include <memory>
#include <string>
#include <system_error>

/// Targets: how a process joins the job of its host, serves calls, and leaves the job.
namespace farcall::detail {

/// Way in which this process was started.
enum class start_kind {
  host,
  target,          ///< started by its host
  launched_target, ///< one of the processes that a process manager has started, but not the first
};
[[nodiscard]] start_kind start_kind_of(const job_options& options);

/// Joins the job of the host that has started this process, or of the process manager's first
/// process.
[[nodiscard]] std::unique_ptr<target_side> join_host(const job_options& options, start_kind kind);
/// Joins the job that the first process of the group makes.
[[nodiscard]] std::unique_ptr<target_side> join_group(const process_group& group,
                                                      const job_options& options);

/// Tells the host why this process cannot join as a target, and ends the process.
[[noreturn]] void give_up_joining(job_state& state, bool is_child, const char* why);
[[nodiscard]] std::string no_thread_text(const std::system_error& e);

/// If this process is a target, serves calls until the job ends, and ends the process.
void serve_if_started(const job_options& options);
/// Throws error if this process is a target, or is joining a job as one.
void require_no_target();

// ---- targets that serve by threads of the program -----------------------------------------------

/// Makes this process the target at the other end of `socket`, and returns the job without serving
/// calls. If `socket` is -1, the process must have been started as a target; otherwise returns
/// null. Call serve_part() to serve calls, and then close_served_job(). Throws what
/// serve_as_target() throws.
[[nodiscard]] job_state* open_served_job(int socket);
/// True if open_served_job() has made the job.
[[nodiscard]] bool is_served_by_parts(job_state& job) noexcept;
/// Serves calls on the calling thread until `holds(argument)` returns true, until the deadline, or
/// until the job has ended and all calls were served; see am::pulled_worker::serve_until().
[[nodiscard]] am::pulled_worker::outcome serve_part(job_state& job,
                                                    bool (*holds)(void* argument) noexcept,
                                                    void* argument, time_point deadline);
/// Leaves the job, which open_served_job() has made. If the job has not ended, the host notices the
/// end of this node as a failure. All other threads must have ended their use of the job.
void close_served_job(job_state& job);

} // namespace farcall::detail
