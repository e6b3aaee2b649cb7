// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/report_files.hpp>
#include <bench/report/statistics.hpp>
#include <tools/common/command_line.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// Minimum of batches for meaningful percentiles.
inline constexpr std::size_t min_batches = 20;

/// Options that all benchmarks share.
struct bench_options {
  std::optional<int> host_cpu;
  std::optional<int> target_cpu;
  std::size_t batches = 0; ///< 0 for the benchmark's default
  bool quick = false;
  bool json = false;
  report_files drawn;            ///< files for the charts
  std::string transport = "shm"; ///< "shm", or "tcp" or "tls" to an own server
  std::string targets;           ///< URLs of targets elsewhere, in place of `transport`
  std::string key;               ///< file with the key of these targets' server
  bool takes_devices = false;    ///< the benchmark can call devices

  /// Returns the number of batches asked for, else one of the two defaults.
  [[nodiscard]] std::size_t batches_or(std::size_t usual, std::size_t quickly) const {
    return batches != 0 ? batches : quick ? quickly : usual;
  }
  [[nodiscard]] core_pair cores() const { return choose_cores(host_cpu, target_cpu); }

  /// Draws the report that `make` returns, if a file was asked for.
  template <class Make>
  void draw(Make make) const {
    if (drawn.are_wanted()) drawn.write(make());
  }
};

/// Returns --host-cpu, --target-cpu, --batches, --quick, --json, --html and --svg.
[[nodiscard]] std::vector<option> shared_options(bench_options& options);

/// Returns the shared options, and --transport, --targets and --key.
[[nodiscard]] std::vector<option> link_options(bench_options& options);

/// Returns the command of a benchmark, which owns its options. The files of charts are checked
/// before it runs.
template <class Options>
[[nodiscard]] command benchmark(std::string name, std::string text, std::vector<option> options,
                                std::shared_ptr<Options> kept, int (*run)(const Options&)) {
  return {.name = std::move(name),
          .text = std::move(text),
          .options = std::move(options),
          .run = [kept, run](const auto& /*rest*/) {
            kept->drawn.check();
            return run(*kept);
          }};
}

/// Returns one sample per batch: nanoseconds per operation. `batch` does `operations` of them per
/// call. The first `warm_up` batches are not counted.
[[nodiscard]] std::vector<double> time_batches(std::size_t batches, std::size_t operations,
                                               std::size_t warm_up,
                                               const std::function<void()>& batch);

/// Returns the URL of one target of this program on `cpu`.
[[nodiscard]] std::string shm_target_on(int cpu);

/// Returns the cells p1, p50 and p99 of a table row.
[[nodiscard]] std::vector<std::string> percentile_cells(const summary& s,
                                                        std::string (*format)(double));

/// Prints a document for programs, indented by two spaces, with a newline at the end.
void print_json(const json& document);

} // namespace farcall::tool
