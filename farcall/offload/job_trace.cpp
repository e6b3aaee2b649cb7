#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/call/callable_description.hpp>
#include <farcall/call/program_image.hpp>
#include <farcall/offload/call.hpp>
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

/// So often it is looked whether there is much to send. Sending costs whoever is traced processor
/// time, so what is little waits for longer.
constexpr milliseconds look_interval{10};
constexpr milliseconds send_interval{250};
/// Of one thread, in one batch.
constexpr std::size_t most_events_sent = 8192;

/// Clocks of a machine drift apart by some microseconds in a second, at most.
constexpr std::chrono::seconds comparison_interval{1};
constexpr unsigned first_comparisons = 16; ///< the host may sleep at first
constexpr unsigned later_comparisons = 8;

constexpr std::array<const char*, 2> own_functions{"farcall::detail::store_trace",
                                                   "farcall::detail::trace_ticks"};

/// Sooner a clock's rate says little.
constexpr milliseconds calibration_time{5};

/// A comparison of clocks is as good as its round trip is short, which over a network takes longer.
constexpr std::chrono::microseconds longest_comparison{300};

/// The result of a call that this thread waits for without keeping a processor busy for longer than
/// `spin`: what is traced needs them all.
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

/// Of a node that does nothing nobody need hear.
bool is_empty(const trace::batch& b) {
  const auto has_none = [](const trace::thread_events& t) { return t.events.empty(); };
  return b.events.lanes.empty() && b.events.ranges.empty() && b.functions.empty() &&
         std::all_of(b.events.threads.begin(), b.events.threads.end(), has_none);
}

/// "out.json" for the first job of the process, "out-2.json" for the second; %p is the process.
/// From the folder that the process has now. Throws setting_error where it has none any more.
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

/// Of some readings the one that nothing came between.
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
  job_ = &job;
  thread_ = std::thread([this] {
    leave_signals_to_other_threads();
    run();
  });
}

void job_trace::finish() noexcept {
  // A thread that records all the time would keep this from ending.
  recorder_.stop();
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void job_trace::run() noexcept {
  try {
    recorder_.leave_thread_out();
    send_all();
    for (time_point next = clock::now() + send_interval; !is_stopped_within(look_interval);) {
      if (clock::now() < next && !recorder_.is_filling()) continue;
      send_all();
      next = clock::now() + send_interval;
    }
    // Between two comparisons clocks are known best.
    next_comparison_ = {};
    send_all();
  } catch (const node_failed& e) {
    log::info(std::string("nothing more is traced here: ") + e.what());
    recorder_.stop();
  } catch (const std::exception& e) {
    give_up(e.what());
  }
}

bool job_trace::is_stopped_within(milliseconds duration) {
  std::unique_lock guard(mutex_);
  return ends_.wait_for(guard, duration, [this] { return stopping_; });
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
  to.events = recorder_.take(most_events_sent);
  bool has_more = false;
  for (const trace::thread_events& t : to.events.threads)
    has_more |= t.events.size() == most_events_sent;
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
    // What tracing itself takes is nothing that the program does.
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
        patiently(async(node(*job_, host_id), fn<&trace_ticks>), longest_comparison);
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
  const bool has_room = timeline_.add(std::move(b));
  if (!has_room && !is_full_) {
    is_full_ = true;
    log::warning("the timeline has " + std::to_string(timeline_.events()) +
                 " events, and no more are recorded; " +
                 settings::variable_of(settings::row("trace-events")) + " raises the limit");
  }
  return has_room;
}

void job_trace::write() noexcept {
  try {
    const std::lock_guard guard(timeline_mutex_);
    std::this_thread::sleep_until(began_.time + calibration_time);
    timeline_.expect_rates(ticks_per_second());
    timeline_.leave_out("farcall::detail::take_collective");
    const auto name_of_node = [this](node_id node) {
      const membership& members = *job_->members;
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
