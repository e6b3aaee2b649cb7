// SPDX-License-Identifier: Apache-2.0
#include "attacker.hpp"

#include <bench/commands.hpp>
#include <bench/runner/forwarder.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/server_process.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <farcall/base/settings_table.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

using seconds = std::chrono::duration<double>;

/// Calls between two operations that open a connection: a new lane, and a copy.
constexpr std::size_t calls_between = 200;
constexpr std::size_t copied_bytes = 400'000;
/// Limit of samples kept from a measurement.
constexpr std::size_t max_samples = 1'000'000;

struct attack_row {
  std::string name;
  std::size_t connections = 0; ///< connections of the attacker
  summary ns;                  ///< time of a call
  double worst_ns = 0;         ///< longest operation, including new lanes and copies
  std::size_t errors = 0;
  double start_ns = 0; ///< start of another job meanwhile; 0 if it was refused
};

/// The running job's operations, and their times.
class observed_job {
 public:
  explicit observed_job(const job_options& options)
      : job_(options), target_(job_.targets().front()),
        memory_(target_.allocate<std::byte>(copied_bytes)), copied_(copied_bytes) {}

  /// Works for that long, and adds its samples.
  void observe(seconds length, attack_row& row, std::vector<double>& samples) {
    const stopwatch all;
    for (std::size_t n = 0; all.nanoseconds() < length.count() * 1e9; ++n) {
      const double call = timed(row, [&] { sync(target_, offloaded::nothing); });
      if (samples.size() < max_samples) samples.push_back(call);
      if (n % calls_between != 0) continue;
      timed(row, [&] {
        const lane l(target_);
        sync(l, offloaded::nothing);
      });
      timed(row, [&] { put_sync(std::span<const std::byte>(copied_), memory_.span()); });
    }
  }

 private:
  template <class Step>
  static double timed(attack_row& row, Step step) {
    const stopwatch watch;
    try {
      step();
    } catch (const error&) {
      ++row.errors;
    }
    const double took = watch.nanoseconds();
    row.worst_ns = std::max(row.worst_ns, took);
    return took;
  }

  job job_;
  node target_;
  buffer<std::byte> memory_;
  std::vector<std::byte> copied_;
};

double time_start(const job_options& options) {
  const stopwatch watch;
  try {
    const job j{options};
    sync(j.targets().front(), offloaded::nothing);
    return watch.nanoseconds();
  } catch (const start_failed&) {
    return 0;
  }
}

std::vector<std::string> not_empty(std::vector<std::string> beginnings) {
  std::erase_if(beginnings, [](const std::string& s) { return s.empty(); });
  return beginnings;
}

std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoul(url.substr(url.rfind(':') + 1)));
}

std::vector<attack_row> measure_all(const bench_options& options, const server_process& server) {
  const auto job_at = [&](const std::string& url) {
    job_options o = job_of_this_program(url);
    o.key = server.key_file();
    return o;
  };
  // Forwarders record the beginnings of the hosts' connections, for replay.
  const forwarder before{server.url()};
  (void)time_start(job_at(before.url()));
  const forwarder between{server.url()};
  observed_job running{job_at(between.url())};
  {
    attack_row warm_up;
    std::vector<double> samples;
    running.observe(seconds(0.2), warm_up, samples);
  }

  const std::vector<attack> attacks =
      all_attacks(not_empty(before.recorded()), not_empty(between.recorded()));
  const seconds length{options.quick ? 1.0 : 10.0};
  progress bar("attacks", attacks.size() + 1);
  std::vector<attack_row> rows;
  const auto measure = [&](const attack* a) {
    attack_row& row = rows.emplace_back();
    row.name = a == nullptr ? "nothing" : a->name;
    bar.begin_step(row.name);
    std::optional<attacker> enemy;
    if (a != nullptr) enemy.emplace(*a, port_of(server.url()));
    std::vector<double> samples;
    running.observe(length / 2, row, samples);
    row.start_ns = time_start(job_at(server.url()));
    running.observe(length / 2, row, samples);
    row.ns = summarize(std::move(samples));
    if (enemy) row.connections = enemy->connections();
  };
  measure(nullptr);
  for (const attack& a : attacks)
    measure(&a);
  bar.finish();
  return rows;
}

json to_json(const std::vector<attack_row>& rows, const bench_options& options,
             const environment& env) {
  json all = json::array();
  for (const attack_row& r : rows) {
    all.push_back({{"attack", r.name},
                   {"connections", r.connections},
                   {"call_ns", percentiles_json(r.ns)},
                   {"worst_ns", rounded(r.worst_ns)},
                   {"errors", r.errors},
                   {"start_of_another_ns", rounded(r.start_ns)}});
  }
  return {{"transport", options.transport},
          {"attacks", std::move(all)},
          {"env", environment_json(env, std::nullopt)}};
}

std::string to_table(const std::vector<attack_row>& rows, const bench_options& options) {
  table out{{{"attack", table::align::left},
             {"connections"},
             {"call p50"},
             {"p99"},
             {"worst of all"},
             {"errors"},
             {"start of another job"}}};
  double worst = 0;
  std::size_t errors = 0;
  for (const attack_row& r : rows) {
    worst = std::max(worst, r.worst_ns);
    errors += r.errors;
    out.add_row({r.name, fmt::format("{}", r.connections), format_time(r.ns.p50),
                 format_time(r.ns.p99), format_time(r.worst_ns), fmt::format("{}", r.errors),
                 r.start_ns == 0 ? "refused" : format_time(r.start_ns)});
  }
  return fmt::format(
             "a job of one target over {}, while somebody without a key attacks its server\n",
             options.transport) +
         out.text() +
         fmt::format("\nin the running job: {} errors, worst call {}\n", errors,
                     format_time(worst));
}

report to_report(const std::vector<attack_row>& rows, const bench_options& options,
                 const environment& env) {
  row_chart c{"An empty call while its server is attacked",
              fmt::format("One target over {}. The attacker has no key.", options.transport),
              {"time of a call"},
              {}};
  for (const attack_row& r : rows)
    c.rows.push_back({r.name, r.ns, rows.front().ns, ""});
  return {"farcall bench attacks",
          "Effect of attackers without a key on a running job.",
          environment_text(env, std::nullopt),
          {std::move(c)},
          {}};
}

int run_attacks(const bench_options& options) {
  const environment env = read_environment();
  // Without this the server would log the refusal of each attack.
  setenv(settings::variable_of(settings::row("log")).c_str(), "error", 0);
  // Forks, so create it before any thread.
  const server_process server({.encrypted = options.transport == "tls"});
  const std::vector<attack_row> rows = measure_all(options, server);
  if (options.json) {
    print_json(to_json(rows, options, env));
  } else {
    print(environment_text(env, std::nullopt) + '\n' + to_table(rows, options));
  }
  options.draw([&] { return to_report(rows, options, env); });
  return 0;
}

} // namespace

command command_attacks() {
  auto options = std::make_shared<bench_options>();
  options->transport = "tls";
  std::vector<option> all = shared_options(*options);
  // Threads are not pinned, and the time limits the number of samples.
  std::erase_if(all,
                [](const option& o) { return o.name.ends_with("-cpu") || o.name == "--batches"; });
  all.push_back({.name = "--transport",
                 .value = &options->transport,
                 .takes = "TRANSPORT",
                 .text = "Transport to the server",
                 .choices = {"tcp", "tls"},
                 .shows_default = true});
  return benchmark("attacks", "Time of calls while an attacker without a key attacks their server",
                   std::move(all), options, run_attacks);
}

} // namespace farcall::tool
