// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/wait_policy.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall::detail {

/// Completes the options. Settings of the user replace the program's options, and defaults fill the
/// remaining ones. The option `targets` gets no default if there are existing targets, or if a
/// group of processes makes the job (`has_others`). Throws setting_error.
[[nodiscard]] job_options complete(job_options o, const settings_source& given, bool has_others);

/// Returns the kind of crash report. Call it with options that complete() has returned.
[[nodiscard]] crash_report crash_report_of(const job_options& o);

/// Returns by which interface this process finds the processes that were started together with it:
/// the value of job_options::process_manager after the user's setting was applied. Throws
/// setting_error.
[[nodiscard]] std::string process_manager_of(const job_options& o);

/// Returns for how long a process that a launcher or MPI has started waits for the host's job. If
/// the program or the user has set start_timeout, returns this time. Otherwise returns a time that
/// is longer than the time for which the host waits. Throws setting_error.
[[nodiscard]] std::chrono::milliseconds timeout_for_host(const job_options& o);

/// Parses the URLs of the targets of a job of equals. Throws setting_error.
[[nodiscard]] std::vector<target_url> parse_equals(const std::string& targets);

/// Returns how threads wait in a job of equals whose `nodes` nodes are on this machine. If the
/// nodes outnumber the processors on which this process may run, and `waiting` is the default,
/// waiting threads yield at once, because the awaited node needs the processor.
[[nodiscard]] wait_policy waiting_of_equals(wait_policy waiting, std::size_t nodes);

/// Settings that the host sends to its targets.
struct forwarded_settings {
  wait_policy waiting;
  std::chrono::milliseconds release_timeout{};
  std::chrono::milliseconds start_timeout{};
  std::chrono::milliseconds stop_timeout{};
  bool are_equals = false;
  /// In a job of equals: true if a thread of farcall runs the handlers.
  bool has_progress_thread = false;
  bool is_traced = false;
  crash_report crash_reports = crash_report::full;
  std::string service{};      ///< text of the host's job_service for its part on the targets
  std::uint32_t job_mark = 0; ///< the job's job_core::mark
};

/// Returns the mark of a new job, a random number other than 0.
[[nodiscard]] std::uint32_t new_job_mark();

[[nodiscard]] std::vector<std::byte> encode(const forwarded_settings& s);
/// Decodes the settings. Throws malformed_message.
[[nodiscard]] forwarded_settings decode_settings(std::span<const std::byte> bytes);

/// Throws setting_error if the command line or the environment has an option for servers. Called in
/// a program that is no server, where such an option would have no effect.
void refuse_server_options(const settings_source& given);

/// Throws start_failed if the user has asked for a job of equals. Called in a program that makes a
/// plain job.
void refuse_plain_jobs(const settings_source& given);

/// Throws setting_error for the host of a plain job that would have no targets: a launcher has
/// started the host as its only process, and no option names targets.
void refuse_host_alone(const job_options& o, const std::optional<process_group>& group);

/// Throws setting_error if the user, and not the program, has asked for a plain job without
/// targets, because a program may rely on having one. `program` has the options of the program, and
/// `o` the completed ones.
void refuse_no_targets(const job_options& program, const job_options& o);

} // namespace farcall::detail
