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

/// What the user has given stands above the program's options, and these above defaults; there is
/// no default for the targets of a job that has others. Throws setting_error.
[[nodiscard]] job_options complete(job_options o, const settings_source& given, bool has_others);

/// The options are complete.
[[nodiscard]] crash_report crash_report_of(const job_options& o);

/// How this process finds others that were started with it: see job_options::process_manager.
/// Throws setting_error.
[[nodiscard]] std::string process_manager_of(const job_options& o);

/// How long a process that something else has started waits for the host's job: start_timeout,
/// where the program or the user has set it, else longer than a host waits. Throws setting_error.
[[nodiscard]] std::chrono::milliseconds patience_for_host(const job_options& o);

/// The targets that a job of equals is to have. Throws setting_error.
[[nodiscard]] std::vector<target_url> parse_equals(const std::string& targets);

/// Settings that targets get from the host.
struct forwarded_settings {
  wait_policy waiting;
  std::chrono::milliseconds release_timeout{};
  std::chrono::milliseconds stop_timeout{};
  bool are_equals = false;
  bool has_progress_thread = false; ///< where they are
  bool is_traced = false;
  crash_report crash_reports = crash_report::full;
  std::string service{};      ///< what the host's job_service tells
  std::uint32_t job_mark = 0; ///< job_core::mark
};

/// Returns the mark of a job that begins: a random number, and not 0.
[[nodiscard]] std::uint32_t new_job_mark();

[[nodiscard]] std::vector<std::byte> encode(const forwarded_settings& s);
/// Throws malformed_message.
[[nodiscard]] forwarded_settings decode_settings(std::span<const std::byte> bytes);

/// For a program that is no server. Throws setting_error where the user has given it an option that
/// is for servers only, and would mean nothing.
void refuse_server_options(const settings_source& given);

/// Throws start_failed where the user has asked for a job of equals.
void refuse_plain_jobs(const settings_source& given);

/// Throws setting_error if a launcher has started the host of a plain job alone, and nothing names
/// targets.
void refuse_host_alone(const job_options& o, const std::optional<process_group>& group);

} // namespace farcall::detail
