#include "bench.hpp"
#include "stopwatch.hpp"
#include "table.hpp"

#include <fmt/format.h>

namespace farcall::tool {

void add_shared_options(CLI::App& app, bench_options& options) {
  app.add_option("--host-cpu", options.host_cpu,
                 "Processor of the host (default: the first allowed one)");
  app.add_option("--target-cpu", options.target_cpu,
                 "Processor of the target (default: the next allowed one)");
  app.add_option(
         "--batches", options.batches,
         fmt::format("Samples for each figure, at least {} (default: depends on the benchmark)",
                     fewest_batches))
      ->check(CLI::Range(fewest_batches, std::size_t{1'000'000}));
  app.add_flag("--quick", options.quick, "Fewer samples and sizes: seconds instead of minutes");
  app.add_flag("--json", options.json, "Print one JSON document instead of a table");
}

void add_link_options(CLI::App& app, bench_options& options) {
  CLI::Option* transport =
      app.add_option("--transport", options.transport,
                     "What carries the calls: shm, or tcp or tls to a server started for this run")
          ->check(CLI::IsMember({"shm", "tcp", "tls"}))
          ->capture_default_str();
  app.add_option("--targets", options.targets,
                 "Targets elsewhere instead: tcp://HOST:PORT of a 'farcall serve' that runs this "
                 "same program; 'offload' takes devices too: cuda:0, cuda-emulated:0")
      ->excludes(transport);
  app.add_option("--key", options.key, "File with the key of that server");
}

std::vector<double> time_batches(std::size_t batches, std::size_t operations, std::size_t warm_up,
                                 const std::function<void()>& batch) {
  std::vector<double> samples(
      batches); // sized beforehand: nothing is allocated between measurements
  for (std::size_t i = 0; i < warm_up; ++i)
    batch();
  for (double& sample : samples) {
    const stopwatch watch;
    batch();
    sample = watch.nanoseconds() / static_cast<double>(operations);
  }
  return samples;
}

std::string shm_target_on(int cpu) { return fmt::format("shm?cpu={}", cpu); }

std::vector<std::string> percentile_cells(const summary& s, std::string (*format)(double)) {
  return {format(s.p1), format(s.p50), format(s.p99)};
}

void print_json(const nlohmann::ordered_json& json) { print(json.dump(2) + '\n'); }

void add_bench(CLI::App& app, action& chosen) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure what an offload costs here, beside the floor of the same run");
  bench->require_subcommand(1);
  bench->footer("docs/benchmarks.md says how each figure is measured.");
  add_bench_floor(*bench, chosen);
  add_bench_offload(*bench, chosen);
  add_bench_patterns(*bench, chosen);
  add_bench_bandwidth(*bench, chosen);
  add_bench_scale(*bench, chosen);
  add_bench_load(*bench, chosen);
#ifdef FARCALL_TOOL_HAS_VEO
  add_bench_veo_memory(*bench, chosen);
#endif
  add_bench_rivals(*bench, chosen);
}

} // namespace farcall::tool
