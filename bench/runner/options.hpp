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

/// Fewer batches than this make no percentile worth printing.
inline constexpr std::size_t fewest_batches = 20;

/// Options that all benchmarks share.
struct bench_options {
  std::optional<int> host_cpu;
  std::optional<int> target_cpu;
  std::size_t batches = 0; ///< 0: the default of the benchmark
  bool quick = false;
  bool json = false;
  report_files drawn;            ///< where the figures are drawn into
  std::string transport = "shm"; ///< "shm", or "tcp" or "tls" to a server of our own
  std::string targets;           ///< URLs of targets elsewhere, instead
  std::string key;               ///< file with the key of their server
  bool takes_devices = false;    ///< the benchmark can call devices

  /// The number asked for, else one of the two defaults.
  [[nodiscard]] std::size_t batches_or(std::size_t usual, std::size_t quickly) const {
    return batches != 0 ? batches : quick ? quickly : usual;
  }
  [[nodiscard]] core_pair cores() const { return choose_cores(host_cpu, target_cpu); }

  /// Draws the report that `make` returns, where a file for it was asked for.
  template <class Make>
  void draw(Make make) const {
    if (drawn.are_wanted()) drawn.write(make());
  }
};

/// --host-cpu, --target-cpu, --batches, --quick, --json, --html and --svg.
[[nodiscard]] std::vector<option> shared_options(bench_options& options);

/// The same, and --transport, --targets and --key.
[[nodiscard]] std::vector<option> link_options(bench_options& options);

/// A benchmark that has options of that type, which it keeps. Files that it shall draw into are
/// looked at before it runs.
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
void print_json(const json& document);

} // namespace farcall::tool
