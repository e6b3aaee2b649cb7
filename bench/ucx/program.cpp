// SPDX-License-Identifier: Apache-2.0
#include "bare_ucx.hpp"

#include <bench/commands.hpp>
#include <bench/runner/comparison.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/table.hpp>

#include <farcall/farcall.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Transports of UCX in one measurement.
struct ucx_network {
  const char* key;
  const char* tls;     ///< UCX_TLS
  const char* devices; ///< UCX_NET_DEVICES; null for UCX's choice
  bool has_copies;     ///< true if copies are measured, too
};
/// With cma for long messages, as on machines without further settings.
constexpr std::array networks{ucx_network{"posix", "posix,cma,self", nullptr, true},
                              ucx_network{"tcp", "tcp,self", "lo", false}};

/// Calls of a turn. With --quick they are few, because on a busy machine each of them may wait for
/// a processor.
constexpr std::size_t usual_calls = 500;
constexpr std::size_t quick_calls = 20;
constexpr std::chrono::minutes time_for_network{5};

std::vector<std::size_t> copy_sizes(bool quick) {
  if (quick) return {std::size_t{1} << 20};
  return {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20,
          std::size_t{64} << 20};
}

/// Figures of one network, in the order of their samples.
std::vector<comparison> figures_of(const ucx_network& over, bool quick) {
  std::vector<comparison> all;
  all.push_back({fmt::format("call_{}", over.key), fmt::format("sync, empty, over {}", over.key),
                 "ucp_am, 8 bytes there and back", ucx_call_goal});
  all.push_back({fmt::format("bare_{}", over.key),
                 fmt::format("ucp_am with events, 16 + 32 bytes, over {}", over.key),
                 "ucp_am, 8 bytes there and back", 0});
  if (!over.has_copies) return all;
  for (const std::size_t bytes : copy_sizes(quick)) {
    for (const char* way : {"put", "get"}) {
      all.push_back({fmt::format("{}_{}_{}", way, over.key, bytes),
                     fmt::format("{} of {} over {}", way, format_bytes(bytes), over.key),
                     fmt::format("ucp_{}_nbx, memory of UCX", way), ucx_copy_goal});
    }
  }
  return all;
}

/// Measures by turns, in a process of its own, and returns the samples of all figures: of each
/// figure first farcall's, then the bare ones.
std::vector<double> measure_network(const ucx_network& over, core_pair cores, std::size_t turns,
                                    bool quick) {
  ::setenv("UCX_TLS", over.tls, 1);
  if (over.devices != nullptr) ::setenv("UCX_NET_DEVICES", over.devices, 1);
  ::setenv("FARCALL_TRANSPORT_MODULES", "ucx", 1);
  const std::vector<std::size_t> sizes =
      over.has_copies ? copy_sizes(quick) : std::vector<std::size_t>{};
  bare_ucx bare{cores, sizes.empty() ? 0 : sizes.back()}; // forks, so before the job
  bare_ucx like_calls{cores, 0, bare_ucx::messages::like_calls};
  const scoped_pin pin{cores.host};
  const job j{job_of_this_program(fmt::format("ucx?cpu={}", cores.target))};
  const node target = j.targets().front();
  const int pid = pids_of(j).front();
  std::vector<double> samples;
  const auto compare = [&](const std::function<double()>& ours,
                           const std::function<double()>& without) {
    const turn_samples one = measure_by_turns(turns, ours, [&] {
      wait_until_idle(pid); // a target that still polls would take the bare process's core
      return without();
    });
    samples.insert(samples.end(), one.ours.begin(), one.ours.end());
    samples.insert(samples.end(), one.bare.begin(), one.bare.end());
  };
  const auto timed = [](std::size_t count, const auto& once) {
    once(); // wakes the target, which polls from now on
    const stopwatch watch;
    for (std::size_t i = 0; i < count; ++i)
      once();
    return watch.nanoseconds() / static_cast<double>(count);
  };
  const std::size_t calls = quick ? quick_calls : usual_calls;
  compare([&] { return timed(calls, [&] { sync(target, offloaded::nothing); }); },
          [&] { return bare.round_trips(calls); });
  compare([&] { return like_calls.round_trips(calls); }, [&] { return bare.round_trips(calls); });
  for (const std::size_t bytes : sizes) {
    const std::size_t count = std::max<std::size_t>(1, (std::size_t{4} << 20) / bytes);
    std::vector<std::byte> here(bytes, std::byte{1});
    const auto there = target.allocate<std::byte>(bytes);
    compare([&] { return timed(count, [&] { put_sync(here, there.span()); }); },
            [&] { return bare.puts(count, bytes); });
    compare([&] { return timed(count, [&] { get_sync(there.span(), std::span(here)); }); },
            [&] { return bare.gets(count, bytes); });
  }
  return samples;
}

std::vector<comparison> measure_all(const bench_options& options, core_pair cores) {
  const std::size_t turns = options.batches_or(60, min_batches);
  progress bar{"ucx", networks.size()};
  std::vector<comparison> all;
  for (const ucx_network& over : networks) {
    bar.begin_step(fmt::format("UCX over {}", over.key));
    std::vector<comparison> figures = figures_of(over, options.quick);
    const measured m = measure_isolated(
        [&] { return measure_network(over, cores, turns, options.quick); }, time_for_network);
    const std::span samples{m.samples};
    for (std::size_t i = 0; i < figures.size(); ++i) {
      figures[i].absent = m.failure;
      if (!m.failure.empty()) continue;
      const auto part = [&](std::size_t number) {
        const auto some = samples.subspan(number * turns, turns);
        return std::vector<double>(some.begin(), some.end());
      };
      figures[i].take({part(2 * i), part(2 * i + 1)});
    }
    all.insert(all.end(), figures.begin(), figures.end());
  }
  bar.finish();
  return all;
}

int run_ucx(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  const std::vector<comparison> figures = measure_all(options, cores);
  if (options.json) {
    print_json({{"figures", comparisons_json(figures)}, {"env", environment_json(env, cores)}});
  } else {
    print(environment_text(env, cores) + '\n' + comparisons_table("over UCX", figures));
  }
  options.draw([&] {
    return report{"farcall bench ucx",
                  "Calls and copies over UCX, beside UCX by itself, by turns.",
                  environment_text(env, cores),
                  {comparisons_chart("Over UCX", figures)},
                  {}};
  });
  return 0;
}

} // namespace

command command_ucx() {
  auto options = std::make_shared<bench_options>();
  return benchmark("ucx",
                   "Calls and copies over UCX, beside bare active messages and copies of UCX, by "
                   "turns",
                   shared_options(*options), options, run_ucx);
}

} // namespace farcall::tool
