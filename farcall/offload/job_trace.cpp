// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/call/callable_description.hpp>
#include <farcall/call/program_image.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::detail {
namespace {

using std::chrono::milliseconds;

/// Every poll_interval, a process checks whether its recorder is filling, and in this case sends
/// the recorded events to the host. Every send_interval, it sends them in any case. This interval
/// is longer, because sending takes CPU time from the traced program.
constexpr milliseconds poll_interval{10};
constexpr milliseconds send_interval{250};
/// Maximum number of events of one thread that one message to the host contains.
constexpr std::size_t max_events_sent = 8192;

/// Time between two comparisons of this process's clock with the host's clock. In a second, two
/// clocks of one machine drift apart by at most some microseconds.
constexpr std::chrono::seconds comparison_interval{1};
constexpr unsigned first_comparisons = 16; ///< more than later, because the host may be asleep
constexpr unsigned later_comparisons = 8;

constexpr std::array<const char*, 2> own_functions{"farcall::detail::store_trace",
                                                   "farcall::detail::trace_ticks"};

/// Minimum time over which the rate of the tick counter is measured.
constexpr milliseconds calibration_time{5};

/// Maximum time for which a process spins for the host's reply when it compares the clocks. The
/// most exact comparison is the one with the shortest round trip. Over a network, a round trip
/// takes longer than this time.
constexpr std::chrono::microseconds max_comparison{300};

/// Waits for the result of a call. Spins for at most `spin`, and then sleeps between tests, because
/// the traced program needs the processors.
template <class Result>
Result patiently(future<Result> call, std::chrono::microseconds spin) {
  constexpr std::chrono::microseconds pause{500};
  const time_point sleeps = clock::now() + spin;
  while (!call.test()) {
    if (clock::now() < sleeps) {
      spin_pause();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  return call.get();
}

/// Returns true if the batch contains no events, so that it need not be sent.
bool is_empty(const trace::batch& b) {
  const auto has_none = [](const trace::thread_events& t) { return t.events.empty(); };
  return b.events.lanes.empty() && b.events.ranges.empty() && b.functions.empty() &&
         std::all_of(b.events.threads.begin(), b.events.threads.end(), has_none);
}

/// Returns the absolute path of the timeline. The name for the first job of the process is the
/// given one, such as "out.json"; the second job gets "out-2.json". "%p" is replaced by the process
/// id. Throws setting_error if the current folder no longer exists.
std::string path_of_job(const std::string& given) {
  std::error_code problem;
  std::string path = std::filesystem::absolute(given, problem).string();
  if (problem) refuse_trace(given, problem.message());
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p"))
    path.replace(at, 2, std::to_string(::getpid()));
  static std::atomic<unsigned> jobs{0};
  const unsigned number = jobs.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number == 1) return path;
  const std::size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const std::size_t dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > name;
  return path.insert(has_ending ? dot : path.size(), "-" + std::to_string(number));
}

std::string function_text(const key_resolver& functions, std::uint32_t key, std::uint32_t handle) {
  const auto& rows = function_registry::instance().rows();
  const std::size_t row = key - key_resolver::first_row_key;
  if (key < key_resolver::first_row_key || row >= rows.size()) return {};
  if (std::string name = rows[row].code == nullptr ? "" : rows[row].code->name_of(handle);
      !name.empty())
    return name;
  callable_description callable = describe_callable(rows[row].name, rows[row].signature);
  if (callable.kind != "pointer" || handle == 0) return callable.name;
  const any_function f = functions.function_for({handle});
  std::string symbol = f == nullptr ? "" : program_image::instance().name_of(f);
  symbol = symbol.substr(0, symbol.find('@'));
  return symbol.empty() ? callable.name : readable_type(symbol);
}

} // namespace

std::unique_ptr<job_trace> job_trace::on_host(const job_options& options) {
  if (options.trace.empty()) return nullptr;
  std::unique_ptr<job_trace> made(new job_trace);
  made->file_ = trace_file(path_of_job(options.trace));
  constexpr const setting& limit = settings::row("trace-events");
  made->timeline_ = trace::timeline(settings_source().number(limit).value_or(limit.number));
  return made;
}

std::unique_ptr<job_trace> job_trace::on_target() {
  return std::unique_ptr<job_trace>(new job_trace);
}

job_trace::job_trace() : recorder_(trace::recorder::make()), began_(now()) {}

/// Reads the tick counter and the system's clock together, several times. Returns the reading that
/// took the shortest time, because it is the least likely to have been interrupted.
job_trace::moment job_trace::now() const noexcept {
  constexpr int readings = 5;
  moment best;
  std::uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < readings; ++i) {
    const std::uint64_t before = recorder_.now();
    const time_point time = clock::now();
    const std::uint64_t took = recorder_.now() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {before + took / 2, time};
  }
  return best;
}

job_trace::~job_trace() {
  recorder_.stop();
  finish();
  recorder_.clear();
}

void job_trace::start(job_state& job) {
  (void)thread_.submit([&] { job_ = &job; });
}

void job_trace::finish() noexcept {
  // Stop recording first. Otherwise the sending thread would never end while another thread records
  // all the time.
  recorder_.stop();
  (void)thread_.stop();
}

time_point job_trace::run(std::unique_lock<std::mutex>& lock) noexcept {
  if (has_ended_) return no_deadline;
  const bool is_last = thread_.is_stopping();
  lock.unlock();
  try {
    const time_point now = clock::now();
    if (next_sending_ == time_point{}) recorder_.leave_thread_out();
    // Also compare the clocks at the end, because times between two comparisons are more exact than
    // times after the last one.
    if (is_last) next_comparison_ = {};
    if (is_last || now >= next_sending_ || recorder_.is_filling()) {
      send_all();
      next_sending_ = clock::now() + send_interval;
    }
    has_ended_ = is_last;
  } catch (const node_failed& e) {
    log::info(std::string("nothing more is traced here: ") + e.what());
    recorder_.stop();
    has_ended_ = true;
  } catch (const std::exception& e) {
    give_up(e.what());
    has_ended_ = true;
  }
  lock.lock();
  return has_ended_ ? no_deadline : clock::now() + poll_interval;
}

void job_trace::give_up(const char* why) noexcept {
  recorder_.stop();
  log::warning(std::string("what this process does is not traced any more: ") + why);
}

void job_trace::send_all() {
  for (bool has_more = true; has_more;) {
    trace::batch b;
    has_more = take(b);
    const bool is_host = job_->members->self() == host_id;
    const time_point now = clock::now();
    const bool is_end = next_comparison_ == time_point{};
    if (!is_end && is_empty(b)) return;
    if (!is_host && now >= next_comparison_) {
      compare_clocks(b, is_end ? first_comparisons : later_comparisons);
      next_comparison_ = now + comparison_interval;
    }
    bool takes_more = true;
    if (is_host) {
      takes_more = add(std::move(b));
    } else {
      const std::vector<std::byte> bytes = trace::encode(b);
      takes_more = patiently(async(node(*job_, host_id), fn<&store_trace>, bytes_sent{bytes}),
                             std::chrono::microseconds(0));
    }
    if (!takes_more) recorder_.stop();
  }
}

bool job_trace::take(trace::batch& to) {
  to.node = job_->members->self();
  to.process = ::getpid();
  to.source = recorder_.source();
  to.ticks_per_second = ticks_per_second();
  to.events = recorder_.take(max_events_sent);
  bool has_more = false;
  for (const trace::thread_events& t : to.events.threads)
    has_more |= t.events.size() == max_events_sent;
  name_functions(to);
  return has_more;
}

void job_trace::name_functions(trace::batch& b) {
  for (trace::thread_events& t : b.events.threads) {
    for (const trace::event& e : t.events) {
      if (e.kind() != trace::event_kind::handler_begin) continue;
      if (!named_.insert({e.key, e.handle}).second) continue;
      std::string name = function_text(*job_->functions, e.key, e.handle);
      if (name == own_functions[0] || name == own_functions[1]) own_keys_.insert(e.key);
      b.functions.push_back({e.key, e.handle, std::move(name)});
    }
    // Remove the events of handlers that tracing itself has called, because they are not part of
    // the program.
    std::erase_if(t.events, [this](const trace::event& e) {
      return (e.kind() == trace::event_kind::handler_begin ||
              e.kind() == trace::event_kind::handler_end) &&
             own_keys_.contains(e.key);
    });
  }
}

void job_trace::compare_clocks(trace::batch& b, unsigned times) {
  for (unsigned i = 0; i < times; ++i) {
    const std::uint64_t before = recorder_.now();
    const std::uint64_t there =
        patiently(async(node(*job_, host_id), fn<&trace_ticks>), max_comparison);
    const std::uint64_t took = recorder_.now() - before;
    b.clocks.push_back({before + took / 2, there, took});
  }
}

double job_trace::ticks_per_second() const noexcept {
  const moment ends = now();
  const std::chrono::duration<double> passed = ends.time - began_.time;
  if (passed < calibration_time) return 0;
  return static_cast<double>(ends.ticks - began_.ticks) / passed.count();
}

bool job_trace::store(std::span<const std::byte> bytes) {
  trace::batch b = trace::decode_batch(bytes);
  if (!job_->members->has(b.node))
    throw malformed_message("events of " + node_text(b.node) + ", which is not part of the job");
  return add(std::move(b));
}

bool job_trace::add(trace::batch b) {
  const std::lock_guard guard(timeline_mutex_);
  const bool has_space = timeline_.add(std::move(b));
  if (!has_space && !is_full_) {
    is_full_ = true;
    log::warning("the timeline has " + std::to_string(timeline_.events()) +
                 " events, and no more are recorded; " +
                 settings::variable_of(settings::row("trace-events")) + " raises the limit");
  }
  return has_space;
}

void job_trace::write() noexcept {
  try {
    const std::lock_guard guard(timeline_mutex_);
    std::this_thread::sleep_until(began_.time + calibration_time);
    timeline_.expect_rates(ticks_per_second());
    timeline_.leave_out("farcall::detail::take_collective");
    timeline_.leave_out("farcall::detail::take_label_of_collective");
    timeline_.leave_out("farcall::detail::take_failed_collective");
    const auto name_of_node = [this](node_id node) {
      const members& members = *job_->members;
      std::string name = node_text(node);
      if (!members.knows(node)) return name;
      const card& c = members.card_of(node);
      if (c.name != name) name += " " + c.name;
      return name + ", process " + std::to_string(c.pid) + " on " + c.host;
    };
    file_.write(timeline_, {began_.ticks, ticks_per_second()}, name_of_node);
    const std::uint64_t missed = timeline_.missed();
    log::info("the timeline, " + std::to_string(timeline_.events()) + " events, is in " +
              file_.path());
    if (missed != 0 && !is_full_) {
      log::warning("the timeline lacks " + std::to_string(missed) +
                   " events that came faster than they could be taken in");
    }
  } catch (const std::exception& e) {
    log::error(e.what());
  }
}

bool store_trace(bytes_sent sent) {
  const std::unique_ptr<job_trace>& trace = current_job().trace;
  return trace && trace->store(sent.bytes);
}

std::uint64_t trace_ticks() { return trace::ticks(trace::find_tick_source()); }

} // namespace farcall::detail
