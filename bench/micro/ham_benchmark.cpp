// What the HAM face adds to the core: the same calls through both, to the same target.
//
// Take the medians of several interleaved runs, with host and target on processors of their own:
//   FARCALL_TARGETS='shm?cpu=1' taskset -c 0 ham_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true

#include <ham/offload.hpp>

#include <benchmark/benchmark.h>

namespace {

void empty() {}
double sum(double a, double b) { return a + b; }

void core_empty(benchmark::State& state) {
  const farcall::node target = farcall::node_at(1);
  for ([[maybe_unused]] const auto _ : state)
    farcall::sync(target, &empty);
}
void ham_empty(benchmark::State& state) {
  for ([[maybe_unused]] const auto _ : state)
    ham::offload::sync(1, f2f(&empty));
}
void core_two_doubles(benchmark::State& state) {
  const farcall::node target = farcall::node_at(1);
  for ([[maybe_unused]] const auto _ : state)
    benchmark::DoNotOptimize(farcall::sync(target, &sum, 1.0, 2.0));
}
void ham_two_doubles(benchmark::State& state) {
  for ([[maybe_unused]] const auto _ : state)
    benchmark::DoNotOptimize(ham::offload::sync(1, f2f(&sum, 1.0, 2.0)));
}

BENCHMARK(core_empty)->UseRealTime();
BENCHMARK(ham_empty)->UseRealTime();
BENCHMARK(core_two_doubles)->UseRealTime();
BENCHMARK(ham_two_doubles)->UseRealTime();

} // namespace

// Renamed by HAM's header, and run on the host only.
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
