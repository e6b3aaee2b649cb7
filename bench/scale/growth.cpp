// SPDX-License-Identifier: Apache-2.0
#include "growth.hpp"
#include "process_use.hpp"
#include "rates.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/idle_threads.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/farcall.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

/// Calls in a batch, at least. With --quick they are few, because calls that sleep on a busy
/// machine add up to minutes.
constexpr std::size_t usual_calls = 512;
constexpr std::size_t quick_calls = 16;

struct batch_sizes {
  std::size_t batches;   ///< of a point
  std::size_t min_calls; ///< in each
};
constexpr std::chrono::minutes time_for_point{5};

/// Number that grows.
struct dimension {
  const char* of;       ///< value of --grow
  const char* title;    ///< of the axis
  std::size_t most;     ///< usual largest number
  std::size_t quick;    ///< largest number with --quick
  std::size_t factor;   ///< between two numbers
  const char* together; ///< description of the calls
  /// Measures a point, in a process of its own. Returns the samples of point_samples.
  std::vector<double> (*measure)(std::size_t n, batch_sizes sizes);
};

struct growth_point {
  std::size_t n = 0;
  summary sync_per_s;  ///< NaN if such calls are not measured
  summary async_per_s; ///< calls under way together
  double memory_kib = 0;
};

struct growth_result {
  const dimension* of = nullptr;
  std::vector<growth_point> points;
  std::string limit; ///< reason why there are no further points
};

job_options one_job(std::size_t targets) {
  return job_of_this_program(fmt::format("shm:{}", targets));
}

/// Returns the memory of the host and of all targets.
double memory_kib(const std::vector<int>& targets) {
  double sum = 0;
  const auto add = [&](int pid) {
    const process_use use = use_of(pid);
    sum += use.private_kib + use.shared_kib + use.page_tables_kib;
  };
  add(getpid());
  for (const int pid : targets)
    add(pid);
  return sum;
}

/// Appends calls per second, one for each batch.
void append_rates(std::vector<double>& to, std::size_t batches, std::size_t calls,
                  const std::function<void()>& batch) {
  for (const double ns : time_batches(batches, calls, 2, batch))
    to.push_back(1e9 / ns);
}

/// Samples of a point: synchronous rates, rates of calls under way together, and the memory.
class point_samples {
 public:
  explicit point_samples(batch_sizes sizes) : sizes_(sizes) {}

  /// Measures calls by `one(i)` for i in turn below n, each of which is waited for.
  template <class One>
  void measure_sync(std::size_t n, const One& one) {
    const std::size_t rounds = rounds_of(n);
    append_rates(all_, sizes_.batches, rounds * n, [&] {
      for (std::size_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < n; ++i)
          one(i);
      }
    });
  }
  /// Measures calls by `one(i)` for i in turn below n, which are under way together.
  template <class One>
  void measure_async(std::size_t n, const One& one) {
    const std::size_t rounds = rounds_of(n);
    std::vector<future<void>> under_way(n);
    append_rates(all_, sizes_.batches, rounds * n, [&] {
      for (std::size_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < n; ++i)
          under_way[i] = one(i);
        for (future<void>& f : under_way)
          f.get();
      }
    });
  }

  void append(const std::vector<double>& rates) {
    all_.insert(all_.end(), rates.begin(), rates.end());
  }
  [[nodiscard]] std::vector<double> with_memory(double kib) {
    all_.push_back(kib);
    return std::move(all_);
  }

 private:
  /// Returns how often a batch calls each of n.
  [[nodiscard]] std::size_t rounds_of(std::size_t n) const {
    return std::max<std::size_t>(1, sizes_.min_calls / n);
  }

  batch_sizes sizes_;
  std::vector<double> all_;
};

std::vector<double> measure_nodes(std::size_t n, batch_sizes sizes) {
  const double before = memory_kib({});
  const job j{one_job(n)};
  const std::vector<node> targets(j.targets().begin(), j.targets().end());
  for (const node& target : targets)
    sync(target, offloaded::nothing);
  const double memory = memory_kib(pids_of(j)) - before;
  point_samples samples(sizes);
  samples.measure_sync(n, [&](std::size_t i) { sync(targets[i], offloaded::nothing); });
  samples.measure_async(n, [&](std::size_t i) { return async(targets[i], offloaded::nothing); });
  return samples.with_memory(memory);
}

std::vector<double> measure_threads(std::size_t n, batch_sizes sizes) {
  const job j{one_job(1)};
  sync(j.targets().front(), offloaded::nothing);
  const std::vector<int> pids = pids_of(j);
  const double before = memory_kib(pids);
  double memory = 0;
  {
    const idle_threads all(j.targets().front(), n);
    memory = memory_kib(pids) - before;
  }
  constexpr std::chrono::milliseconds slice{20};
  const std::vector<node> targets(j.targets().begin(), j.targets().end());
  point_samples samples(sizes);
  samples.append(measure_rate(targets, n, call_kind::synchronous, sizes.batches, slice));
  samples.append(measure_rate(targets, n, call_kind::pipelined, sizes.batches, slice));
  return samples.with_memory(memory);
}

std::vector<double> measure_lanes(std::size_t n, batch_sizes sizes) {
  const job j{one_job(1)};
  const node target = j.targets().front();
  sync(target, offloaded::nothing);
  const std::vector<int> pids = pids_of(j);
  const double before = memory_kib(pids);
  std::vector<std::unique_ptr<lane>> lanes;
  for (std::size_t i = 0; i < n; ++i) {
    lanes.push_back(std::make_unique<lane>(target));
    sync(*lanes.back(), offloaded::nothing);
  }
  const double memory = memory_kib(pids) - before;
  point_samples samples(sizes);
  samples.measure_sync(n, [&](std::size_t i) { sync(*lanes[i], offloaded::nothing); });
  samples.measure_async(n, [&](std::size_t i) { return async(*lanes[i], offloaded::nothing); });
  return samples.with_memory(memory);
}

std::vector<double> measure_calls(std::size_t n, batch_sizes sizes) {
  const job j{one_job(1)};
  const node target = j.targets().front();
  sync(target, offloaded::nothing);
  const std::vector<int> pids = pids_of(j);
  std::vector<future<void>> under_way(n); // touched before the memory is read
  const double before = memory_kib(pids);
  for (future<void>& f : under_way)
    f = async(target, offloaded::nothing);
  const double memory = memory_kib(pids) - before;
  for (future<void>& f : under_way)
    f.get();
  point_samples samples(sizes);
  samples.measure_sync(1, [&](std::size_t) { sync(target, offloaded::nothing); });
  samples.measure_async(n, [&](std::size_t) { return async(target, offloaded::nothing); });
  return samples.with_memory(memory);
}

constexpr std::array dimensions{
    dimension{"nodes", "targets", 1000, 4, 2, "one call to each target under way", measure_nodes},
    dimension{"threads", "threads that call one target", 1024, 4, 2,
              "64 calls of each thread under way", measure_threads},
    dimension{"lanes", "lanes of one thread to one target", 1024, 4, 2,
              "one call in each lane under way", measure_lanes},
    dimension{"calls", "calls under way to one target", 1'000'000, 100, 10,
              "all these calls under way", measure_calls}};

std::vector<std::size_t> numbers_of(const dimension& d, std::size_t most) {
  std::vector<std::size_t> numbers;
  for (std::size_t n = 1; n < most; n *= d.factor)
    numbers.push_back(n);
  numbers.push_back(most);
  return numbers;
}

growth_result measure_all(const dimension& d, const scale_options& options) {
  const std::size_t most = options.most != 0 ? options.most : options.quick ? d.quick : d.most;
  const std::vector<std::size_t> numbers = numbers_of(d, most);
  const std::size_t batches = options.batches_or(40, min_batches);
  const batch_sizes sizes{.batches = batches,
                          .min_calls = options.quick ? quick_calls : usual_calls};
  growth_result result{&d, {}, {}};
  progress bar{"scale", numbers.size()};
  for (const std::size_t n : numbers) {
    bar.begin_step(fmt::format("{} {}", n, d.title));
    const measured m = measure_isolated([&] { return d.measure(n, sizes); }, time_for_point);
    if (!m.failure.empty()) {
      if (result.points.empty()) throw failed_run(m.failure);
      result.limit = fmt::format("{}: {}", n, m.failure);
      break;
    }
    const std::span all{m.samples};
    const auto part = [&](std::size_t first) {
      const auto rates = all.subspan(first * batches, batches);
      return summarize({rates.begin(), rates.end()});
    };
    result.points.push_back({n, part(0), part(1), all.back()});
  }
  bar.finish();
  return result;
}

/// Returns the memory for each further one since the point before; for the first point the memory
/// of one.
double memory_of_each(const growth_result& r, std::size_t at) {
  const growth_point& p = r.points[at];
  if (at == 0) return p.memory_kib / static_cast<double>(p.n);
  const growth_point& before = r.points[at - 1];
  return (p.memory_kib - before.memory_kib) / static_cast<double>(p.n - before.n);
}

json to_json(const growth_result& r, const environment& env) {
  json points = json::array();
  for (std::size_t i = 0; i < r.points.size(); ++i) {
    const growth_point& p = r.points[i];
    points.push_back({{"number", p.n},
                      {"sync_calls_per_s", percentiles_json(p.sync_per_s, 0)},
                      {"async_calls_per_s", percentiles_json(p.async_per_s, 0)},
                      {"memory_kib", rounded(p.memory_kib, 1)},
                      {"memory_kib_of_each_further_one", rounded(memory_of_each(r, i), 3)}});
  }
  return {{"growth_of", r.of->of},
          {"points", std::move(points)},
          {"limit", r.limit},
          {"env", environment_json(env, {})}};
}

std::string to_table(const growth_result& r) {
  table out{{{r.of->title},
             {"sync p1"},
             {"p50"},
             {"p99"},
             {"async p1"},
             {"p50"},
             {"p99"},
             {"memory"},
             {"of each further one"}}};
  const auto kib = [](double value) {
    return format_bytes(static_cast<std::uint64_t>(std::max(0.0, std::round(value * 1024))));
  };
  for (std::size_t i = 0; i < r.points.size(); ++i) {
    const growth_point& p = r.points[i];
    std::vector<std::string> cells{fmt::format("{}", p.n)};
    for (const summary& s : {p.sync_per_s, p.async_per_s}) {
      for (std::string& cell : percentile_cells(s, format_rate))
        cells.push_back(std::move(cell));
    }
    cells.push_back(kib(p.memory_kib));
    cells.push_back(kib(memory_of_each(r, i)));
    out.add_row(std::move(cells));
  }
  std::string text = out.text() + fmt::format("async: {}\n", r.of->together);
  if (!r.limit.empty()) text += fmt::format("no further point, {}\n", r.limit);
  return text;
}

report to_report(const growth_result& r, const environment& env) {
  const axis x{r.of->title, unit::count, scale::log10};
  chart_series sync_rates{"each call waited for", {}, series_role::figure};
  chart_series async_rates{r.of->together, {}, series_role::figure};
  chart_series memory{"all processes together", {}, series_role::figure};
  for (const growth_point& p : r.points) {
    const auto at = static_cast<double>(p.n);
    sync_rates.points.push_back({at, p.sync_per_s});
    async_rates.points.push_back({at, p.async_per_s});
    memory.points.push_back({at, only(p.memory_kib * 1024)});
  }
  line_chart rates{fmt::format("Calls a second as {} grow", r.of->of),
                   "Rates of all callers together; no thread is bound to a processor.",
                   x,
                   {"calls per second", unit::per_second, scale::log10},
                   {std::move(sync_rates), std::move(async_rates)}};
  line_chart use{fmt::format("Memory as {} grow", r.of->of),
                 "",
                 x,
                 {"bytes", unit::bytes, scale::log10},
                 {std::move(memory)}};
  std::vector<std::string> left_out;
  if (!r.limit.empty()) left_out.push_back(r.limit);
  return {"farcall bench scale --grow " + std::string{r.of->of},
          "Calls a second and memory as one number of a job grows.",
          environment_text(env, {}),
          {std::move(rates), std::move(use)},
          std::move(left_out)};
}

} // namespace

int run_growth(const scale_options& options) {
  const auto& d = *std::ranges::find(dimensions, options.grow,
                                     [](const dimension& each) { return std::string{each.of}; });
  const environment env = read_environment();
  const growth_result result = measure_all(d, options);
  if (options.json) {
    print_json(to_json(result, env));
  } else {
    print(environment_text(env, {}) + '\n' + to_table(result));
  }
  options.draw([&] { return to_report(result, env); });
  return 0;
}

} // namespace farcall::tool
