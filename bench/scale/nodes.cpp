// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"

#include <bench/rivals/rivals.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/stopwatch.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/process.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// Jobs per size that are only started, in addition to the job that is measured in full.
constexpr std::size_t usual_starts = 5;
constexpr std::size_t quick_starts = 2;
constexpr std::size_t usual_contact_seconds = 20;
constexpr std::size_t quick_contact_seconds = 3;
/// Time for a launcher to end its processes and itself.
constexpr std::chrono::seconds time_to_end{10};
constexpr std::chrono::seconds time_for_empty_program{120};

/// Figures of one job size.
struct size_result {
  std::size_t nodes = 0; ///< number of targets
  std::map<std::string, double, std::less<>> figures;
  std::map<std::string, std::vector<double>, std::less<>> samples; ///< figures of every start
  std::vector<std::string> limits; ///< reasons why first contact was incomplete
  std::string failure;             ///< reason why there is no such job

  [[nodiscard]] double figure(std::string_view name) const {
    const auto at = figures.find(name);
    return at == figures.end() ? 0 : at->second;
  }
  [[nodiscard]] bool has(std::string_view name) const { return figures.contains(name); }
  [[nodiscard]] summary times(std::string_view name) const {
    const auto at = samples.find(name);
    return summarize(at == samples.end() ? std::vector<double>{} : at->second);
  }
};

/// Names of the figures of each start.
constexpr std::array start_figures{"launch_ms",     "constructor_ms",    "first_results_ms",
                                   "to_results_ms", "start_host_cpu_ms", "start_targets_cpu_ms",
                                   "end_ms"};
/// Time of programs that only initialise and finalise MPI, started in the same way.
constexpr const char* empty_program = "empty_program_ms";

/// Returns the mpirun command to put before a program and its arguments.
std::vector<std::string> words_of_mpirun(std::size_t processes) {
  program_result version;
  try {
    version = run_program({"mpirun", "--version"}, std::chrono::seconds{20});
  } catch (const failed_run& e) {
    throw usage_problem(fmt::format("--launcher mpirun: {}; install an MPI (openmpi-bin, mpich) or "
                                    "put its mpirun into PATH",
                                    e.what()));
  }
  std::vector<std::string> words{"mpirun", "-n", fmt::format("{}", processes)};
  if (version.standard_output.find("Open MPI") == std::string::npos) return words;
  words.insert(words.end(), {"--bind-to", "none", "--oversubscribe"});
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  return words;
}

volatile std::sig_atomic_t is_interrupted = 0;

/// During its lifetime a termination signal makes look() throw, so that this process can end the
/// processes that it has started.
class interruption {
 public:
  interruption() {
    struct sigaction mine{};
    mine.sa_handler = [](int) { is_interrupted = 1; };
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], &mine, &before_[i]); // no SA_RESTART: system calls return
  }
  ~interruption() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      sigaction(signals[i], &before_[i], nullptr);
  }
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  interruption(interruption&&) = delete;
  interruption& operator=(interruption&&) = delete;

  static void look() {
    if (is_interrupted != 0) throw failed_run("interrupted");
  }

 private:
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> before_{};
};

/// The process that makes the job, or its launcher: ended by the destructor, and with this process.
class job_process {
 public:
  explicit job_process(const std::vector<std::string>& words) : out_(make_pipe()) {
    const pid_t parent = getpid();
    // In its own process group: if the terminal signals the whole group and this process forwards
    // the signal, a launcher takes the second signal as an order to quit without cleaning up.
    const auto run = [&]() -> int {
      for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        ::signal(signal, SIG_DFL);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (orphaned(parent)) return 1;
      const unique_fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
      become_program(words, nothing.get(), out_[1].get());
    };
    process_ = std::make_unique<forked_process>(run, forked_process::group::own);
    out_[1].reset();
  }
  ~job_process() {
    // SIGTERM first: a killed launcher leaves its processes behind.
    if (process_->alive()) kill(process_->pid(), SIGTERM);
    (void)process_->wait_until(std::chrono::steady_clock::now() + time_to_end);
  }
  job_process(const job_process&) = delete;
  job_process& operator=(const job_process&) = delete;
  job_process(job_process&&) = delete;
  job_process& operator=(job_process&&) = delete;

  /// Reads the next line; returns false at the end.
  [[nodiscard]] bool read_line(std::string& line) {
    for (;;) {
      if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
        line = read_.substr(0, end);
        read_.erase(0, end + 1);
        return true;
      }
      std::array<char, 4096> buffer{};
      const ssize_t got = read(out_[0].get(), buffer.data(), buffer.size());
      interruption::look();
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      read_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

  [[nodiscard]] std::string fate() {
    (void)process_->wait_until(std::chrono::steady_clock::now() + time_to_end);
    return process_->fate();
  }

 private:
  static std::array<unique_fd, 2> make_pipe() {
    interruption::look();
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw failed_run(fmt::format("cannot create a pipe: {}", reason_text(errno)));
    return {unique_fd(ends[0]), unique_fd(ends[1])};
  }

  std::array<unique_fd, 2> out_;
  std::unique_ptr<forked_process> process_;
  std::string read_;
};

/// Measures the baseline of starts by mpirun, if MPI's headers were found.
void run_empty_program(size_result& result) {
  const std::filesystem::path program = mpi_program();
  if (access(program.c_str(), X_OK) != 0) return;
  std::vector<std::string> words = words_of_mpirun(result.nodes + 1);
  words.insert(words.end(), {program.string(), "empty"});
  const stopwatch watch;
  (void)run_program(words, time_for_empty_program);
  result.samples[empty_program].push_back(watch.nanoseconds() / 1e6);
}

/// Makes one job of that size, and adds its output to `result`.
void run_job(const scale_options& options, bool is_start_only, progress& bar, size_result& result) {
  const bool is_launched = options.launcher == "mpirun";
  std::vector<std::string> words;
  if (is_launched) words = words_of_mpirun(result.nodes + 1);
  const std::size_t seconds = options.contact_seconds
                                  ? *options.contact_seconds
                                  : (options.quick ? quick_contact_seconds : usual_contact_seconds);
  words.insert(words.end(), {"/proc/self/exe", std::string(job_argument),
                             fmt::format("{}", result.nodes), is_launched ? "launched" : "children",
                             is_start_only ? "start" : (options.quick ? "quick" : "all"),
                             fmt::format("{}", seconds)});
  if (is_launched) words[words.size() - 6] = own_program();
  std::map<std::string, double, std::less<>> figures;
  bool is_done = false;
  const stopwatch watch;
  job_process process(words);
  for (std::string line; process.read_line(line);) {
    if (!line.starts_with(job_line)) {
      fmt::print(stderr, "{}\n", line); // printed by the launcher
      continue;
    }
    line.erase(0, job_line.size());
    const std::string kind = line.substr(0, line.find(' '));
    const std::string rest = line.substr(std::min(line.size(), kind.size() + 1));
    if (kind == "step") {
      bar.tell(fmt::format("{} targets: {}", result.nodes, rest));
    } else if (kind == "figure") {
      const std::size_t blank = rest.find(' ');
      const std::string name = rest.substr(0, blank);
      if (name == "constructor_ms") figures["launch_ms"] = watch.nanoseconds() / 1e6;
      if (name == "first_results_ms") figures["to_results_ms"] = watch.nanoseconds() / 1e6;
      figures[name] = std::stod(rest.substr(blank + 1));
    } else if (kind == "limit") {
      result.limits.push_back(rest);
    } else if (kind == "failed") {
      result.failure = rest;
    } else if (kind == "done") {
      is_done = true;
    }
  }
  const std::string fate = process.fate();
  if (!is_done && result.failure.empty()) {
    result.failure = fmt::format("{} ended with {} before the job was measured",
                                 is_launched ? "mpirun" : "the host", fate);
  }
  for (const char* const name : start_figures) {
    if (const auto at = figures.find(name); at != figures.end())
      result.samples[name].push_back(at->second);
  }
  if (!is_start_only) result.figures = std::move(figures);
}

json use_json(const size_result& r, const std::string& of) {
  json use;
  for (const char* const what :
       {"private_kib", "shared_kib", "page_tables_kib", "heap_bytes", "descriptors", "threads"}) {
    const std::string name = of + "_" + what;
    if (r.has(name)) use[what] = rounded(r.figure(name));
  }
  return use;
}

json to_json(const size_result& r) {
  json row{{"nodes", r.nodes}};
  if (!r.failure.empty()) {
    row["failure"] = r.failure;
    return row;
  }
  for (const char* const name : start_figures) {
    const summary s = r.times(name);
    row[name] = {{"p50", rounded(s.p50, 3)},
                 {"lowest", rounded(s.lowest, 3)},
                 {"highest", rounded(s.highest, 3)},
                 {"samples", s.samples}};
  }
  if (r.samples.contains(empty_program)) {
    row[empty_program] = {{"p50", rounded(r.times(empty_program).p50, 3)}};
    row["to_empty_program"] = rounded(r.times("to_results_ms").p50 / r.times(empty_program).p50, 3);
  }
  for (const char* const of : {"host_unused", "host_used", "target_unused", "target_used"})
    row[of] = use_json(r, of);
  for (const char* const name :
       {"target_heap_bytes", "idle_host_ms_per_s", "idle_targets_ms_per_s", "meeting_pairs",
        "meeting_ms", "known_heap_bytes", "known_page_tables_bytes", "known_shared_bytes",
        "meeting_host_cpu_ms", "meeting_targets_cpu_ms", "calling_lanes", "calling_ms",
        "calling_host_cpu_ms", "calling_targets_cpu_ms", "lane_heap_bytes", "lane_memory_kib"}) {
    if (r.has(name)) row[name] = rounded(r.figure(name), 3);
  }
  row["limits"] = r.limits;
  return row;
}

std::string to_table(const std::vector<size_result>& results, const scale_options& options) {
  const auto ms = [](double value) { return format_time(value * 1e6); };
  const auto kib = [](double value) { return fmt::format("{:.1f}", value); };
  table starts{{{"targets"},
                {"launch"},
                {"constructor"},
                {"lowest"},
                {"highest"},
                {"first results"},
                {"end"},
                {"idle host ms/s"},
                {"all targets ms/s"}}};
  table launches{{{"targets"}, {"first results"}, {"empty MPI program"}, {"ratio"}}};
  table memory{{{"targets"},
                {"host: private"},
                {"shared"},
                {"page tables"},
                {"used: all"},
                {"descriptors"},
                {"threads"},
                {"target: private"},
                {"shared"},
                {"page tables"},
                {"descriptors"},
                {"threads"}}};
  table contacts{{{"targets"},
                  {"pairs met"},
                  {"time"},
                  {"per pair"},
                  {"heap of a peer"},
                  {"page tables"},
                  {"lanes called"},
                  {"time"},
                  {"per lane"},
                  {"memory of a lane"}}};
  bool has_contacts = false;
  for (const size_result& r : results) {
    if (!r.failure.empty()) continue;
    const auto n = static_cast<double>(r.nodes);
    const summary constructor = r.times("constructor_ms");
    starts.add_row({fmt::format("{}", r.nodes), ms(r.times("launch_ms").p50), ms(constructor.p50),
                    ms(constructor.lowest), ms(constructor.highest),
                    ms(r.times("first_results_ms").p50), ms(r.times("end_ms").p50),
                    fmt::format("{:.2f}", r.figure("idle_host_ms_per_s")),
                    fmt::format("{:.2f}", r.figure("idle_targets_ms_per_s"))});
    if (r.samples.contains(empty_program)) {
      const double job = r.times("to_results_ms").p50;
      const double empty = r.times(empty_program).p50;
      launches.add_row(
          {fmt::format("{}", r.nodes), ms(job), ms(empty), fmt::format("{:.2f} x", job / empty)});
    }
    const double used = r.figure("host_used_private_kib") + r.figure("host_used_shared_kib") +
                        r.figure("host_used_page_tables_kib");
    memory.add_row({fmt::format("{}", r.nodes), kib(r.figure("host_unused_private_kib") / n),
                    kib(r.figure("host_unused_shared_kib") / n),
                    kib(r.figure("host_unused_page_tables_kib") / n), kib(used / n),
                    fmt::format("{:.2f}", r.figure("host_unused_descriptors") / n),
                    fmt::format("+{:.0f}", r.figure("host_used_threads")),
                    kib(r.figure("target_unused_private_kib")),
                    kib(r.figure("target_unused_shared_kib")),
                    kib(r.figure("target_unused_page_tables_kib")),
                    fmt::format("{:.1f}", r.figure("target_unused_descriptors")),
                    fmt::format("{:.1f}", r.figure("target_unused_threads"))});
    if (!r.has("meeting_pairs") || r.figure("meeting_pairs") == 0) continue;
    has_contacts = true;
    const double pairs = r.figure("meeting_pairs");
    const double lanes = r.figure("calling_lanes");
    contacts.add_row(
        {fmt::format("{}", r.nodes), fmt::format("{:.0f}", pairs), ms(r.figure("meeting_ms")),
         ms(r.figure("meeting_ms") / pairs), fmt::format("{:.0f} B", r.figure("known_heap_bytes")),
         fmt::format("{:.0f} B", r.figure("known_page_tables_bytes")), fmt::format("{:.0f}", lanes),
         ms(r.figure("calling_ms")), lanes > 0 ? ms(r.figure("calling_ms") / lanes) : "",
         lanes > 0 ? kib(r.figure("lane_memory_kib")) + " KiB" : ""});
  }
  std::string text = fmt::format(
      "start: medians, not pinned; {}; launch: from the start of {} to the constructor's end\n\n",
      options.launcher == "mpirun" ? "started by mpirun" : "children of the host",
      options.launcher == "mpirun" ? "mpirun" : "the host's process");
  text += starts.text();
  text += "\nmemory: KiB of the host for each target, before the first call and after it, and KiB "
          "of a target\n\n";
  text += memory.text();
  if (std::ranges::any_of(results, [](auto& r) { return r.samples.contains(empty_program); })) {
    text += "\nfrom the start of mpirun to the first results, beside a whole MPI program that does "
            "nothing\n\n";
    text += launches.text();
  }
  if (has_contacts) {
    text += "\nfirst contact of all targets with each other: first they get to know each other, "
            "then each calls all\n\n";
    text += contacts.text();
  }
  for (const size_result& r : results) {
    if (!r.failure.empty())
      text += fmt::format("\n{} targets could not be had: {}\n", r.nodes, r.failure);
    for (const std::string& what : r.limits)
      text += fmt::format("\n{} targets: first contact is not complete, for want of {}\n", r.nodes,
                          what);
  }
  return text;
}

/// Lines of a chart against the number of targets: their names, and the value for a result.
using size_lines = std::vector<std::pair<const char*, std::function<summary(const size_result&)>>>;

line_chart by_nodes(const char* title, const char* subtitle, axis y,
                    const std::vector<size_result>& results, const size_lines& lines) {
  line_chart c{title, subtitle, {"targets", unit::count, scale::log2}, std::move(y), {}};
  for (const auto& [name, of] : lines) {
    chart_series s{name, {}, series_role::figure};
    for (const size_result& r : results) {
      if (!r.failure.empty()) continue;
      const summary value = of(r);
      if (value.samples != 0) s.points.push_back({static_cast<double>(r.nodes), value});
    }
    if (!s.points.empty()) c.series.push_back(std::move(s));
  }
  return c;
}

report to_report(const std::vector<size_result>& results, const floor_probe& floor,
                 const environment& env, core_pair cores) {
  const auto time = [](const char* name) {
    return [name](const size_result& r) {
      return converted(r.times(name), [](double ms) { return ms * 1e6; });
    };
  };
  const auto memory = [](const char* of) {
    return [of](const size_result& r) {
      double kib = 0;
      for (const char* const what : {"private_kib", "shared_kib", "page_tables_kib"})
        kib += r.figure(fmt::format("{}_{}", of, what));
      if (!r.has(fmt::format("{}_private_kib", of))) return nothing_measured();
      return only(1024 * kib);
    };
  };
  const auto contact = [](const char* name) {
    return [name](const size_result& r) {
      return r.has(name) ? only(1e6 * r.figure(name)) : nothing_measured();
    };
  };
  std::vector<chart> charts{
      by_nodes("Start and end of a job", "Of all starts.", {"time"}, results,
               {{"launch, to the constructor's end", time("launch_ms")},
                {"constructor", time("constructor_ms")},
                {"first results", time("first_results_ms")},
                {"a whole empty MPI program", time(empty_program)},
                {"end", time("end_ms")}}),
      by_nodes("Memory", "Additions of the job, before and after the first call to each target.",
               {"bytes", unit::bytes, scale::log2}, results,
               {{"the host, unused", memory("host_unused")},
                {"the host, used", memory("host_used")},
                {"a target, unused", memory("target_unused")},
                {"a target, used", memory("target_used")}}),
      by_nodes("First contact of all targets with each other", "Of all pairs together.", {"time"},
               results,
               {{"they get to know each other", contact("meeting_ms")},
                {"each calls all others", contact("calling_ms")}})};
  report page{"farcall bench scale",
              "Jobs of many targets, each made by a process of its own.",
              environment_text(env, cores) + floor_text(floor),
              std::move(charts),
              {}};
  for (const size_result& r : results) {
    if (!r.failure.empty())
      page.left_out.push_back(fmt::format("{} targets: {}", r.nodes, r.failure));
    for (const std::string& what : r.limits) {
      page.left_out.push_back(
          fmt::format("{} targets: first contact is not complete, for want of {}", r.nodes, what));
    }
  }
  return page;
}

} // namespace

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::size_t size = 0;
    const auto [stop, wrong] = std::from_chars(text.data() + at, text.data() + end, size);
    if (wrong != std::errc{} || stop != text.data() + end || size < 1 || size > max_nodes) {
      throw usage_problem(fmt::format(
          "--nodes: \"{}\" is no list of numbers; give some from 1 to {}, such as 2,4,8",
          text.substr(at, end - at), max_nodes));
    }
    sizes.push_back(size);
    at = end + 1;
  }
  return sizes;
}

int run_scale_of_nodes(const scale_options& options) {
  const std::vector<std::size_t> sizes = parse_sizes(
      !options.nodes.empty() ? options.nodes : (options.quick ? "2,4,8" : "2,4,8,16,32,64"));
  const std::size_t starts =
      options.starts ? *options.starts : (options.quick ? quick_starts : usual_starts);
  const core_pair cores = options.cores();
  const environment env = read_environment();
  if (options.launcher == "mpirun") (void)words_of_mpirun(1); // fails before anything takes time
  progress bar{"scale", sizes.size() * (1 + starts)};
  floor_meter meter{cores, floor_places, 1000};
  meter.measure();
  const interruption ending_in_order;
  std::vector<size_result> results;
  bool is_complete = true;
  for (const std::size_t nodes : sizes) {
    size_result& result = results.emplace_back();
    result.nodes = nodes;
    for (std::size_t i = 0; i <= starts && result.failure.empty(); ++i) {
      bar.begin_step(fmt::format("{} targets", nodes));
      run_job(options, i > 0, bar, result);
      if (options.launcher == "mpirun" && result.failure.empty()) run_empty_program(result);
    }
    is_complete = is_complete && result.failure.empty();
  }
  meter.measure();
  bar.finish();
  if (options.json) {
    json rows = json::array();
    for (const size_result& r : results)
      rows.push_back(to_json(r));
    print_json({{"floor_ns", percentiles_json(meter.pooled())},
                {"launcher", options.launcher},
                {"sizes", std::move(rows)},
                {"env", environment_json(env, cores)}});
  } else {
    print(environment_text(env, cores) + '\n' + to_table(results, options) +
          fmt::format("\nfloor: {}\n", format_time(meter.pooled().p50)));
  }
  options.draw([&] { return to_report(results, meter, env, cores); });
  return is_complete ? 0 : 1;
}

} // namespace farcall::tool
