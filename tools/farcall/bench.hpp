#pragma once

#include "command.hpp"
#include "environment.hpp"
#include "pinning.hpp"
#include "statistics_json.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace farcall::tool {

/// Fewer batches than this make no percentile worth printing.
inline constexpr std::size_t fewest_batches = 20;

/// Options that all benchmarks share.
struct bench_options {
  std::optional<int> host_cpu;
  std::optional<int> target_cpu;
  std::size_t batches = 0; ///< 0: the default of the benchmark
  bool quick = false;
  bool json = false;
  std::string transport = "shm"; ///< "shm", or "tcp" or "tls" to a server of our own
  std::string targets;           ///< URLs of targets elsewhere, instead
  std::string key;               ///< file with the key of their server
  bool takes_devices = false;    ///< the benchmark can call devices

  /// The number asked for, else one of the two defaults.
  [[nodiscard]] std::size_t batches_or(std::size_t usual, std::size_t quickly) const {
    return batches != 0 ? batches : quick ? quickly : usual;
  }
  [[nodiscard]] core_pair cores() const { return choose_cores(host_cpu, target_cpu); }
};

/// Adds --host-cpu, --target-cpu, --batches, --quick and --json.
void add_shared_options(CLI::App& app, bench_options& options);

/// Adds --transport, --targets and --key.
void add_link_options(CLI::App& app, bench_options& options);

void add_bench_floor(CLI::App& bench, action& chosen);
void add_bench_offload(CLI::App& bench, action& chosen);
void add_bench_patterns(CLI::App& bench, action& chosen);
void add_bench_bandwidth(CLI::App& bench, action& chosen);
void add_bench_scale(CLI::App& bench, action& chosen);
void add_bench_load(CLI::App& bench, action& chosen);
void add_bench_veo_memory(CLI::App& bench, action& chosen);
void add_bench_rivals(CLI::App& bench, action& chosen);

/// One sample per batch: nanoseconds per operation of `batch`, which does `operations` of them each
/// time it is called. The first `warm_up` batches are run and not counted.
[[nodiscard]] std::vector<double> time_batches(std::size_t batches, std::size_t operations,
                                               std::size_t warm_up,
                                               const std::function<void()>& batch);

/// The URL of one target of this program on `cpu`.
[[nodiscard]] std::string shm_target_on(int cpu);

/// The three cells p1, p50, p99 of a table row.
[[nodiscard]] std::vector<std::string> percentile_cells(const summary& s,
                                                        std::string (*format)(double));

/// A document for programs: two spaces of indentation and a newline at the end.
void print_json(const nlohmann::ordered_json& json);

} // namespace farcall::tool
