#include "bench_session.hpp"
#include "table.hpp"

#include <chrono>
#include <ctime>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t warm_up_batches = 5;

} // namespace

bench_session::bench_session(const bench_options& options, const std::string& title,
                             std::size_t steps)
    : env_(read_environment()), cores_(cores_of(options)), bar_(title, steps),
      meter_(make_floor(kind_of(options), cores_)), link_(options, cores_.target),
      pin_(cores_.host), job_(link_.one_target(cores_.target)), target_(job_.targets().front()) {
  last_floor_ = measure_floor();
}

std::string bench_session::heading() const {
  std::string above = environment_text(env_, cores_);
  if (kind() == link_kind::shm) return above;
  return above + link_.text() + fmt::format("floor: {}\n", meter_->what());
}

nlohmann::ordered_json bench_session::circumstances() const {
  nlohmann::ordered_json json = environment_json(env_, cores_);
  json["transport"] = word_of(kind());
  return json;
}

void bench_session::wait_for_idle_target() const {
  for (const int pid : pids_of(job_))
    wait_until_idle(pid);
  if (other_pid_ != 0) wait_until_idle(other_pid_);
  // Over TCP a thread here reads the connections.
  if (kind() != link_kind::shm) wait_until_idle(getpid());
}

std::vector<double> bench_session::measure_floor() {
  wait_for_idle_target();
  return meter_->measure();
}

figure bench_session::measure(const std::string& what, std::size_t batches, std::size_t operations,
                              const std::function<void()>& batch) {
  bar_.begin_step(what);
  std::vector<double> samples = time_batches(batches, operations, warm_up_batches, batch);
  std::vector<double> around = std::exchange(last_floor_, measure_floor());
  around.insert(around.end(), last_floor_.begin(), last_floor_.end());
  return {what, summarize(std::move(samples)), summarize(std::move(around))};
}

job_options job_of_this_program(const std::string& targets) {
  job_options options;
  options.targets = targets;
  options.program = "/proc/self/exe";
  return options;
}

std::vector<int> pids_of(const job& j) {
  const std::string here = j.host().description().host;
  std::vector<int> pids;
  for (const node& target : j.targets()) {
    const node_description d = target.description();
    if (d.host == here) pids.push_back(static_cast<int>(d.pid));
  }
  return pids;
}

double processor_time_ns(int pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return -1;
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

void wait_until_idle(int pid) {
  constexpr auto look_every = std::chrono::milliseconds{3};
  constexpr double nearly_nothing_ns = 50'000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  double before = processor_time_ns(pid);
  while (std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(look_every);
    const double now = processor_time_ns(pid);
    if (now - before < nearly_nothing_ns) return;
    before = now;
  }
}

nlohmann::ordered_json figure_json(const figure& f) {
  nlohmann::ordered_json json = percentiles_json(f.ns);
  json["floor_p50"] = rounded(f.floor.p50);
  json["ratio"] = rounded(f.ratio());
  return json;
}

std::vector<std::string> figure_cells(const figure& f) {
  std::vector<std::string> cells = percentile_cells(f.ns, format_time);
  cells.push_back(format_time(f.floor.p50));
  cells.push_back(format_ratio(f.ratio()));
  return cells;
}

} // namespace farcall::tool
