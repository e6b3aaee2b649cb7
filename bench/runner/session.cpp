// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <tools/common/gpu_text.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/gpu/device.hpp>
#include <farcall/gpu/transport/entry.hpp>
#include <farcall/gpu/transport/find_gpus.hpp>

#include <chrono>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t warm_up_batches = 5;

std::uint32_t device_of(const bench_options& options) {
  return kind_of(options) == link_kind::gpu
             ? cuda::device_number(parse_targets(options.targets).front())
             : 0;
}

std::string text_of_gpu(std::uint32_t device) {
  const cuda::gpus_found found = cuda::find_gpus();
  return device < found.gpus.size() ? gpu_text(found.gpus[device]) : found.why_none;
}

/// Binds the thread that starts the job, and thereby the job's threads, which inherit it. Returns
/// an empty result for a GPU, since the job's threads would share the core of the calls.
std::optional<scoped_pin> pin_for_start(link_kind kind, int cpu) {
  if (kind == link_kind::gpu) return std::nullopt;
  return std::optional<scoped_pin>{std::in_place, cpu};
}

} // namespace

bench_session::bench_session(const bench_options& options, const std::string& title,
                             std::size_t steps)
    : env_(read_environment()), cores_(cores_of(options)), device_(device_of(options)),
      bar_(title, steps), meter_(make_floor(kind_of(options), cores_, device_)),
      link_(options, cores_.target), pin_(pin_for_start(link_.kind(), cores_.host)),
      job_(link_.one_target(cores_.target)), target_(job_.targets().front()) {
  if (!pin_) pin_.emplace(cores_.host);
  last_floor_ = measure_floor();
}

std::string bench_session::heading() const {
  std::string above = environment_text(env_, cores_);
  if (kind() == link_kind::shm) return above;
  above += link_.text();
  if (kind() == link_kind::gpu) above += fmt::format("GPU: {}\n", text_of_gpu(device_));
  return above + fmt::format("floor: {}\n", meter_->what());
}

json bench_session::circumstances() const {
  json document = environment_json(env_, cores_);
  document["transport"] = word_of(kind());
  if (kind() == link_kind::gpu) document["gpu"] = text_of_gpu(device_);
  return document;
}

report bench_session::make_report(const std::string& subject, std::string text,
                                  std::vector<chart> charts,
                                  std::vector<std::string> left_out) const {
  std::string lines = environment_text(env_, cores_) + link_.text();
  if (kind() == link_kind::gpu) lines += fmt::format("GPU: {}\n", text_of_gpu(device_));
  return {"farcall bench " + subject, std::move(text), lines + floor_text(*meter_),
          std::move(charts), std::move(left_out)};
}

chart_series bench_session::floor_beside(const std::vector<chart_series>& series) const {
  return level_floor(fmt::format("floor: {}", meter_->what()), floor(), series);
}

void bench_session::wait_for_idle_target() const {
  // Resident workers would poll their slots during the measurement.
  if (device::is_device(target_)) device::quiesce(target_);
  for (const int pid : pids_of(job_))
    wait_until_idle(pid);
  if (other_pid_ != 0) wait_until_idle(other_pid_);
  // Over TCP a thread of this process reads the connections.
  if (kind() != link_kind::shm) wait_until_idle(getpid());
}

std::vector<double> bench_session::measure_floor() {
  wait_for_idle_target();
  return meter_->measure();
}

figure bench_session::measure(const std::string& what, std::size_t batches, std::size_t operations,
                              const std::function<void()>& batch) {
  bar_.begin_step(what);
  return beside_floor(what, time_batches(batches, operations, warm_up_batches, batch));
}

figure bench_session::measure(const std::string& what, floor_probe& probe) {
  bar_.begin_step(what);
  return beside_floor(what, probe.measure());
}

/// Returns a figure with the floor measured before and after it.
figure bench_session::beside_floor(const std::string& what, std::vector<double> samples) {
  std::vector<double> around = std::exchange(last_floor_, measure_floor());
  around.insert(around.end(), last_floor_.begin(), last_floor_.end());
  return {what, summarize(std::move(samples)), summarize(std::move(around)), {}, {}};
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

json figure_json(const figure& f) {
  json document = percentiles_json(f.ns);
  document["floor_p50"] = rounded(f.floor.p50);
  document["ratio"] = rounded(f.ratio());
  return document;
}

chart_row row_of(const figure& f) { return {f.what, f.ns, f.floor, ""}; }

chart_point point_of(std::size_t x, const figure& f) {
  return {static_cast<double>(x), f.ns, f.floor.p50};
}

std::vector<std::string> figure_cells(const figure& f) {
  std::vector<std::string> cells = percentile_cells(f.ns, format_time);
  cells.push_back(format_time(f.floor.p50));
  cells.push_back(format_ratio(f.ratio()));
  return cells;
}

} // namespace farcall::tool
