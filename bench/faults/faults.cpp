// SPDX-License-Identifier: Apache-2.0
#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <farcall/farcall.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

/// Not inlined, so that it has its own frame.
[[gnu::noinline]] int stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
  return 1;
}

namespace {

constexpr std::uintptr_t no_address = 0x10;
constexpr std::chrono::seconds deadline{5};
/// Targets that write their reports while one more faults.
constexpr std::size_t others = 3;

int faults() { return stores_at(no_address) + 1; }

/// Keeps the target's report off the terminal, and the kernel from writing a core dump.
void be_quiet() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || ::dup2(nowhere, STDERR_FILENO) < 0)
    throw failed_run(fmt::format("cannot write to /dev/null: {}", reason_text(errno)));
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
}

/// A figure of this benchmark.
struct fault_case {
  const char* report;
  bool has_deadline;
  std::size_t others;

  [[nodiscard]] std::string text() const {
    std::string text = report;
    if (has_deadline) text += ", with a deadline";
    if (others != 0) text += fmt::format(", beside {} reports", others);
    return text;
  }
};

constexpr std::array<fault_case, 6> cases{{{"names", false, 0},
                                           {"names", true, 0},
                                           {"full", false, 0},
                                           {"full", true, 0},
                                           {"full", false, others},
                                           {"full", true, others}}};

struct fault_row {
  fault_case of;
  figure f;
};

/// Returns the nanoseconds from the call whose function faults to the node_failed that it throws.
template <class Target>
double time_fault(const Target& target) {
  const stopwatch watch;
  try {
    (void)sync(target, faults);
  } catch (const node_failed& e) {
    const double ns = watch.nanoseconds();
    if (std::string(e.what()).find("stores_at(") == std::string::npos)
      throw failed_run(fmt::format("the function at fault is not named: {}", e.what()));
    return ns;
  }
  throw failed_run("a function that faults has returned");
}

/// Takes one sample, in a new job that ends once its targets have written their reports.
double time_case(const fault_case& c) {
  job_options o = job_of_this_program(fmt::format("shm:{}", c.others + 1));
  o.crash_report = c.report;
  const job j{o};
  for (const node& target : j.targets())
    sync(target, be_quiet);
  for (std::size_t i = 0; i != c.others; ++i)
    (void)time_fault(j.targets()[i]);
  const node& last = j.targets()[c.others];
  sync(last, offloaded::nothing);
  return c.has_deadline ? time_fault(last.within(deadline)) : time_fault(last);
}

// ---- the floor ----------------------------------------------------------------------------------

int floor_socket = -1;

void tell_floor(int /*signal*/) {
  const char told = 1;
  [[maybe_unused]] const auto written = ::write(floor_socket, &told, sizeof told);
  ::_exit(0);
}

/// Runs a process that faults on request, and whose signal handler reports it.
int fault_for_floor(int socket) {
  floor_socket = socket;
  struct sigaction action{};
  action.sa_handler = &tell_floor;
  ::sigaction(SIGSEGV, &action, nullptr);
  char asked = 0;
  if (::read(socket, &asked, sizeof asked) != sizeof asked) return 1;
  return faults();
}

double time_floor() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw failed_run(fmt::format("cannot make a pair of sockets: {}", reason_text(errno)));
  const unique_fd here(ends[0]);
  unique_fd there(ends[1]);
  const forked_process process([&] { return fault_for_floor(there.get()); });
  there = unique_fd();
  // Wait until the process waits for the request.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  char word = 1;
  const stopwatch watch;
  if (::write(here.get(), &word, sizeof word) != sizeof word ||
      ::read(here.get(), &word, sizeof word) != sizeof word)
    throw failed_run("the process that measures the floor has ended unexpectedly");
  return watch.nanoseconds();
}

// ---- the command --------------------------------------------------------------------------------

template <class Sample>
std::vector<double> samples_of(std::size_t n, const Sample& sample) {
  std::vector<double> samples;
  for (std::size_t i = 0; i != n; ++i)
    samples.push_back(sample());
  return samples;
}

std::vector<fault_row> measure_all(const bench_options& options, progress& bar) {
  std::vector<fault_row> rows;
  const std::size_t floors = options.batches_or(200, 20);
  std::vector<double> floor = samples_of(floors, time_floor);
  for (const fault_case& c : cases) {
    bar.begin_step(c.text());
    // Finding the lines of functions takes about a second.
    const bool is_long = std::string_view(c.report) == "full";
    const std::size_t n = is_long ? options.batches_or(20, 3) : options.batches_or(100, 20);
    std::vector<double> samples = samples_of(n, [&] { return time_case(c); });
    std::vector<double> next = samples_of(floors, time_floor);
    std::vector<double> around = std::exchange(floor, next);
    around.insert(around.end(), next.begin(), next.end());
    rows.push_back({c, {c.text(), summarize(std::move(samples)), summarize(std::move(around))}});
  }
  return rows;
}

json to_json(const std::vector<fault_row>& rows, const environment& env) {
  json faults = json::array();
  for (const fault_row& row : rows) {
    json each = figure_json(row.f);
    each["report"] = row.of.report;
    each["deadline"] = row.of.has_deadline;
    each["other_reports"] = row.of.others;
    each["samples"] = row.f.ns.samples;
    faults.push_back(std::move(each));
  }
  return {{"fault_ns", std::move(faults)}, {"env", environment_json(env, std::nullopt)}};
}

std::string to_table(const std::vector<fault_row>& rows) {
  table out{{{"report", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"floor"}, {"to floor"}}};
  for (const fault_row& row : rows) {
    std::vector<std::string> cells{row.f.what};
    for (std::string& cell : figure_cells(row.f))
      cells.push_back(std::move(cell));
    out.add_row(std::move(cells));
  }
  return "from the call of a function that faults to node_failed, with the names of functions\n"
         "floor: a bare process faults, and its signal handler writes to a socket\n" +
         out.text();
}

report to_report(const std::vector<fault_row>& rows, const environment& env) {
  row_chart c{"The notice of a crash",
              "From the call of a function that faults to node_failed.",
              {"time to the notice"},
              {}};
  for (const fault_row& row : rows)
    c.rows.push_back(row_of(row.f));
  return {"farcall bench faults",
          "Time until the caller learns that a target has crashed, and where.",
          environment_text(env, std::nullopt),
          {std::move(c)},
          {}};
}

int run_faults(const bench_options& options) {
  const environment env = read_environment();
  progress bar("faults", cases.size());
  const std::vector<fault_row> rows = measure_all(options, bar);
  bar.finish();
  if (options.json) {
    print_json(to_json(rows, env));
  } else {
    print(environment_text(env, std::nullopt) + '\n' + to_table(rows));
  }
  options.draw([&] { return to_report(rows, env); });
  return 0;
}

} // namespace

command command_faults() {
  auto options = std::make_shared<bench_options>();
  std::vector<option> all = shared_options(*options);
  // Threads are not pinned.
  std::erase_if(all, [](const option& o) { return o.name.ends_with("-cpu"); });
  return benchmark("faults", "Time until the caller learns that a target has crashed, and where",
                   std::move(all), options, run_faults);
}

} // namespace farcall::tool
