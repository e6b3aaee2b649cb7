// SPDX-License-Identifier: Apache-2.0

// Overhead of the HAM layer over the core: the same calls and copies through both, to the same
// target. HAM's copies are ordered with its calls; the calls measured beside them go to another
// target.
//
// Take the medians of several interleaved runs, with host and targets on processors of their own:
//   FARCALL_TARGETS='shm?cpu=1,shm?cpu=1' taskset -c 0 ham_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true

#include <ham/offload.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

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

/// Memory of the first target, and a block of equal size on the host.
struct blocks {
  explicit blocks(std::size_t bytes)
      : here(bytes, std::byte{1}), there(farcall::node_at(1).allocate<std::byte>(bytes)) {
    farcall::put_sync(here, there);
  }
  std::vector<std::byte> here;
  farcall::buffer<std::byte> there;
};

/// Shared by both sides: the time of a copy depends on the offsets of its ends within their pages.
std::map<std::int64_t, blocks> all_blocks;

const blocks& blocks_of(std::int64_t bytes) {
  return all_blocks.try_emplace(bytes, static_cast<std::size_t>(bytes)).first->second;
}

template <bool HasCalls>
void core_put(benchmark::State& state) {
  const blocks& b = blocks_of(state.range(0));
  const farcall::node other = farcall::node_at(2);
  for ([[maybe_unused]] const auto _ : state) {
    farcall::future<void> call;
    if constexpr (HasCalls) call = farcall::async(other, &empty);
    farcall::put(b.here, b.there).get();
    if constexpr (HasCalls) call.get();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
template <bool HasCalls>
void ham_put(benchmark::State& state) {
  const blocks& b = blocks_of(state.range(0));
  const ham::offload::buffer_ptr<std::byte> there(
      reinterpret_cast<std::byte*>(b.there.span().address()), 1);
  for ([[maybe_unused]] const auto _ : state) {
    ham::offload::future<void> call;
    if constexpr (HasCalls) call = ham::offload::async(2, f2f(&empty));
    ham::offload::put(b.here.data(), there, b.here.size()).get();
    if constexpr (HasCalls) call.get();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* entry) {
  for (const std::int64_t bytes : {512L, 16L << 10, 1L << 20, 32L << 20})
    entry->Arg(bytes);
  entry->UseRealTime();
}

BENCHMARK(core_put<false>)->Apply(sizes);
BENCHMARK(ham_put<false>)->Apply(sizes);
BENCHMARK(core_put<true>)->Apply(sizes);
BENCHMARK(ham_put<true>)->Apply(sizes);
BENCHMARK(core_empty)->UseRealTime();
BENCHMARK(ham_empty)->UseRealTime();
BENCHMARK(core_two_doubles)->UseRealTime();
BENCHMARK(ham_two_doubles)->UseRealTime();

} // namespace

// HAM's header renames main(); it runs on the host only.
int main(int argc, char** argv) {
  if (ham::offload::num_nodes() < 3) {
    std::fputs("ham_benchmark: two targets are needed: FARCALL_TARGETS=shm:2\n", stderr);
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  all_blocks.clear();
  return 0;
}
