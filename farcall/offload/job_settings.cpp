// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/other_variables.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <utility>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Default time for which a process of a launcher waits until process 0, the host, makes its job.
/// It is longer than the time for which the host waits for the others, because the host may first
/// read its input.
constexpr std::chrono::seconds usual_timeout{30};

/// Sets `option` to the user's setting. If the user has set none, keeps the program's value, or
/// else sets the default. The value 0 means that the program has set none.
template <class T>
void settle_option(T& option, const setting& s, const settings_source& given) {
  using number_type = decltype(T(0) / T(1));
  const bool is_set = option != T(0);
  if (const auto value = given.number(s, is_set)) {
    option = T(static_cast<number_type>(*value));
  } else if (is_set) {
    // Check that the program's own value is in the range of the setting.
    settings::check(s, "job_options::" + std::string(s.field), std::to_string(option / T(1)));
  } else {
    option = T(static_cast<number_type>(s.number));
  }
}

void settle_option(std::string& option, const setting& s, const settings_source& given) {
  if (auto value = given.text(s, !option.empty())) option = std::move(*value);
}

/// Sets an option like settle_option(), for a time that the user sets in microseconds. A negative
/// value means that the program has set none. The program's own value may be any other time.
void settle_spin(std::chrono::nanoseconds& option, const setting& s, const settings_source& given) {
  const bool is_set = option >= std::chrono::nanoseconds::zero();
  if (const auto value = given.number(s, is_set)) {
    option = microseconds(*value);
  } else if (!is_set) {
    option = microseconds(s.number);
  }
}

/// Returns true if the user has turned timeouts off, because nodes stop in a debugger or run very
/// slowly.
bool are_timeouts_off() { return settings_source().text(settings::row("timeouts")) == "off"; }

/// Throws setting_error for invalid URLs of targets. `given_by` names the setting with the URLs,
/// for the error.
void check_targets(const std::string& targets, const std::string& given_by) {
  if (targets == no_targets) return;
  try {
    (void)parse_targets(targets);
  } catch (const setting_error& e) {
    throw setting_error(given_by + ": " + e.what());
  }
}

/// Throws setting_error if the file cannot be read. A transport reads the file only later, or
/// never, so that without this check the user might not see the mistake.
void check_file(const std::string& file, const setting& s, const settings_source& given,
                bool is_set) {
  if (file.empty()) return;
  struct stat found{};
  int reason = ::access(file.c_str(), R_OK) == 0 ? 0 : errno;
  if (reason == 0 && ::stat(file.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) reason = EISDIR;
  if (reason == 0) return;
  throw setting_error(given.given_by(s, is_set).value_or("job_options::" + std::string(s.field)) +
                      ": cannot read the file \"" + file + "\": " + reason_text(reason) +
                      (s.field == "key" ? "; 'farcall keygen FILE' makes a key" : ""));
}

/// Sets an option that names a file, and checks the file.
void settle_file(std::string& option, const setting& s, const settings_source& given) {
  const bool is_set = !option.empty();
  settle_option(option, s, given);
  check_file(option, s, given, is_set);
}

void settle_server_key(std::string& option, const settings_source& given) {
  constexpr const setting& s = settings::row("server-key");
  const bool is_set = !option.empty();
  settle_option(option, s, given);
  if (option.empty()) return;
  try {
    check_server_keys(option);
  } catch (const setting_error& e) {
    throw setting_error(given.given_by(s, is_set).value_or("job_options::server_key") + ": " +
                        e.what());
  }
}

} // namespace

crash_report detail::crash_report_of(const job_options& o) {
  return o.crash_report == "off"     ? crash_report::off
         : o.crash_report == "names" ? crash_report::names
                                     : crash_report::full;
}

std::string detail::process_manager_of(const job_options& o) {
  constexpr const setting& s = settings::row("process-manager");
  if (const auto value = settings_source().text(s, !o.process_manager.empty())) return *value;
  if (o.process_manager.empty()) return settings::default_of(s);
  settings::check(s, "job_options::process_manager", o.process_manager);
  return o.process_manager;
}

std::chrono::milliseconds detail::timeout_for_host(const job_options& o) {
  constexpr const setting& s = settings::row("start-timeout-ms");
  if (are_timeouts_off()) return milliseconds(settings::day_ms);
  const settings_source given;
  if (o.start_timeout.count() == 0 && !given.number(s, false)) return usual_timeout;
  std::chrono::milliseconds waiting = o.start_timeout;
  settle_option(waiting, s, given);
  return waiting;
}

job_options detail::complete(job_options o, const settings_source& given, bool has_others) {
  using settings::row;
  // Check the setting of the log now, because an exception can be thrown here. The log itself reads
  // the setting only when it writes.
  (void)given.text(row("log"));
  (void)wrap_commands::of_settings();
  settings::warn_of_unknown(other_variables());
  const auto targets_given_by = given.given_by(row("targets"), !o.targets.empty());
  settle_option(o.targets, row("targets"), given);
  if (targets_given_by) check_targets(o.targets, *targets_given_by);
  if (o.targets.empty() && o.existing_targets.empty() && !has_others) {
    o.targets = settings::default_of(row("targets"));
  }
  settle_option(o.program, row("program"), given);
  if (o.arguments.empty()) o.arguments = own_arguments();
  settle_file(o.key, row("key"), given);
  settle_file(o.certificate, row("certificate"), given);
  settle_file(o.certificate_key, row("certificate-key"), given);
  settle_file(o.authority, row("authority"), given);
  settle_server_key(o.server_key, given);
  check_access({.key = o.key,
                .certificate = o.certificate,
                .certificate_key = o.certificate_key,
                .authority = o.authority,
                .server_key = o.server_key});
  settle_option(o.start_timeout, row("start-timeout-ms"), given);
  settle_option(o.stop_timeout, row("stop-timeout-ms"), given);
  settle_option(o.release_timeout, row("release-timeout-ms"), given);
  settle_option(o.heartbeat_timeout, row("heartbeat-timeout-ms"), given);
  settle_option(o.peer_timeout, row("peer-timeout-ms"), given);
  static_assert(row("lane-bytes").low == min_ring);
  static_assert(row("workers").high == max_workers);
  settle_option(o.workers, row("workers"), given);
  settle_option(o.lane_bytes, row("lane-bytes"), given);
  settle_option(o.heap_bytes, row("heap-bytes"), given);
  settle_option(o.host_files, row("host-files"), given);
  if (!o.crash_report.empty())
    settings::check(row("crash-report"), "job_options::crash_report", o.crash_report);
  settle_option(o.crash_report, row("crash-report"), given);
  settle_option(o.trace, row("trace"), given);
  if (const auto value = given.text(row("label"), o.label)) o.label = *value == "yes";
  if (!o.progress.empty()) settings::check(row("progress"), "job_options::progress", o.progress);
  settle_option(o.progress, row("progress"), given);
  settle_spin(o.waiting.spin, row("spin-us"), given);
  settle_spin(o.waiting.yield_after, row("yield-after-us"), given);
  if (are_timeouts_off()) {
    o.start_timeout = o.stop_timeout = o.heartbeat_timeout = milliseconds(settings::day_ms);
    o.peer_timeout = milliseconds(0);
  }
  static_assert(wait_policy{}.spin == microseconds(row("spin-us").number));
  static_assert(wait_policy{}.yield_after == microseconds(row("yield-after-us").number));
  return o;
}

wait_policy detail::waiting_of_equals(wait_policy waiting, std::size_t nodes) {
  cpu_set_t processors;
  if (::sched_getaffinity(0, sizeof processors, &processors) == 0 &&
      nodes > static_cast<std::size_t>(CPU_COUNT(&processors)) &&
      waiting.yield_after == wait_policy{}.yield_after)
    waiting.yield_after = {};
  return waiting;
}

std::uint32_t detail::new_job_mark() {
  std::random_device source;
  for (;;) {
    if (const std::uint32_t mark = source(); mark != 0) return mark;
  }
}

std::vector<std::byte> detail::encode(const forwarded_settings& s) {
  const wait_policy& waiting = s.waiting;
  byte_writer w;
  w.number(std::int64_t{waiting.spin.count()});
  w.number(std::int64_t{waiting.yield_after.count()});
  w.number(std::int64_t{s.release_timeout.count()});
  w.number(std::int64_t{s.start_timeout.count()});
  w.number(std::int64_t{s.stop_timeout.count()});
  w.number(std::uint8_t{s.are_equals});
  w.number(std::uint8_t{s.has_progress_thread});
  w.number(std::uint8_t{s.is_traced});
  w.number(static_cast<std::uint8_t>(s.crash_reports));
  w.text(s.service);
  w.number(std::uint32_t{s.job_mark});
  return std::move(w).bytes();
}

detail::forwarded_settings detail::decode_settings(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "the job's settings");
  forwarded_settings s;
  s.waiting.spin = std::chrono::nanoseconds(r.number<std::int64_t>());
  s.waiting.yield_after = std::chrono::nanoseconds(r.number<std::int64_t>());
  s.release_timeout = std::chrono::milliseconds(r.number<std::int64_t>());
  s.start_timeout = std::chrono::milliseconds(r.number<std::int64_t>());
  s.stop_timeout = std::chrono::milliseconds(r.number<std::int64_t>());
  s.are_equals = r.number<std::uint8_t>() != 0;
  s.has_progress_thread = r.number<std::uint8_t>() != 0;
  s.is_traced = r.number<std::uint8_t>() != 0;
  const auto reports = r.number<std::uint8_t>();
  if (reports > static_cast<std::uint8_t>(crash_report::full))
    throw malformed_message("the job's settings name a crash report that there is not");
  s.crash_reports = static_cast<crash_report>(reports);
  s.service = r.text();
  s.job_mark = r.number<std::uint32_t>();
  return s;
}

std::vector<target_url> detail::parse_equals(const std::string& targets) {
  if (targets.empty() || targets == no_targets) return {};
  std::vector<target_url> urls = parse_targets(targets);
  for (const target_url& url : urls) {
    const transport_entry* const row = find_transport(transports(), url.scheme);
    if (row != nullptr && row->host) {
      throw setting_error("a job of equals has processes only, and targets \"" + url.scheme +
                          "\" are none; a plain job can have them");
    }
    if (url.workers != 1) {
      throw setting_error("in a job of equals one thread of each node runs handlers: leave out "
                          "workers=" +
                          std::to_string(url.workers));
    }
  }
  return urls;
}

void detail::refuse_server_options(const settings_source& given) {
  using settings::row;
  for (const setting* const s : {&row("clients"), &row("revoked"), &row("keep-output"),
                                 &row("plain"), &row("i-trust-this-network")}) {
    const auto option = given.given_by(*s);
    if (!option) continue;
    throw setting_error(*option + " is for servers, and this program is none: give it " +
                        settings::option_of(row("serve")) + ", too, or leave that out");
  }
}

void detail::refuse_host_alone(const job_options& o, const std::optional<process_group>& group) {
  if (!group || group->size > 1 || !o.targets.empty() || !o.existing_targets.empty()) return;
  throw setting_error(
      "a launcher (" + group->name +
      ") has started one process of this program, and a job of a host and targets has two at "
      "least: start two (mpirun -n 2), name targets (FARCALL_TARGETS=shm), or let the process "
      "start targets of its own (FARCALL_PROCESS_MANAGER=none)");
}

void detail::refuse_no_targets(const job_options& program, const job_options& o) {
  if (o.targets != no_targets || program.targets == no_targets) return;
  throw setting_error(
      "targets \"none\" (FARCALL_TARGETS) are for jobs of equals, whose other nodes a launcher "
      "starts, and for programs that add their targets later (job_options::targets); name targets, "
      "for instance \"shm\"");
}

void detail::refuse_plain_jobs(const settings_source& given) {
  if (given.text(settings::row("spmd")) != "yes") return;
  throw start_failed("this program makes a plain farcall::job, and was started for a job of equals "
                     "(farcall run --spmd, or FARCALL_SPMD=yes): start it by farcall run without "
                     "--spmd, or make the job by farcall::job job{farcall::spmd, argc, argv}");
}

} // namespace farcall
