// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"
#include "stopwatch.hpp"

#include <tools/common/table.hpp>

#include <fmt/format.h>

namespace farcall::tool {

std::vector<option> shared_options(bench_options& o) {
  return {
      {.name = "--host-cpu",
       .value = &o.host_cpu,
       .takes = "CPU",
       .text = "Processor of the host (default: the first allowed one)"},
      {.name = "--target-cpu",
       .value = &o.target_cpu,
       .takes = "CPU",
       .text = "Processor of the target (default: the next allowed one)"},
      {.name = "--batches",
       .value = &o.batches,
       .text = fmt::format(
           "Samples for each figure, at least {} (default: depends on the benchmark)", min_batches),
       .range = {{min_batches, 1'000'000}}},
      {.name = "--quick",
       .value = &o.quick,
       .text = "Fewer samples and sizes: seconds instead of minutes"},
      {.name = "--json", .value = &o.json, .text = "Print one JSON document instead of a table"},
      {.name = "--html",
       .value = &o.drawn.html,
       .takes = "FILE",
       .text = "Also write a page with charts of the figures beside their floors to this file"},
      {.name = "--svg",
       .value = &o.drawn.svg,
       .takes = "FILE",
       .text = "Also write the charts alone to this file, as one picture"},
  };
}

std::vector<option> link_options(bench_options& o) {
  std::vector<option> options = shared_options(o);
  options.push_back(
      {.name = "--transport",
       .value = &o.transport,
       .takes = "TRANSPORT",
       .text = "Transport of the calls: shm, or tcp or tls to a server started for this run",
       .choices = {"shm", "tcp", "tls"},
       .shows_default = true});
  options.push_back(
      {.name = "--targets",
       .value = &o.targets,
       .takes = "URLS",
       .text = "Targets elsewhere instead: tcp://HOST:PORT of a 'farcall serve' that runs this "
               "same program; 'offload' takes devices too: cuda:0, cuda-emulated:0",
       .excludes = "--transport"});
  options.push_back({.name = "--key",
                     .value = &o.key,
                     .takes = "FILE",
                     .text = "File with the key of that server"});
  return options;
}

std::vector<double> time_batches(std::size_t batches, std::size_t operations, std::size_t warm_up,
                                 const std::function<void()>& batch) {
  std::vector<double> samples(batches); // allocated before the measurements
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

void print_json(const json& document) { print(document.dump(2) + '\n'); }

} // namespace farcall::tool
