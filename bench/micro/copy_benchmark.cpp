// SPDX-License-Identifier: Apache-2.0

// Speed of copies by one thread between mapped memory: copy_bytes, libc's memcpy and each other
// kernel, into shared memory (a put), out of it (a get), or between private memory.
//
// Small and middle sizes repeat on the same memory, so both sides are cached if they fit.
// Take the medians of several interleaved runs:
//   copy_benchmark --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true

#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_kernels.hpp>
#include <farcall/memory/segment.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

enum class direction { put, get, local };

// Source and destination, touched once: the first touch of a page costs twenty times the copy.
class copy_memory {
 public:
  copy_memory(direction way, std::size_t bytes)
      : shared_{way == direction::local ? farcall::segment{}
                                        : farcall::segment::create("copy_benchmark", bytes)},
        private_(way == direction::local ? 2 * bytes : bytes, std::byte{1}) {
    std::byte* const other = shared_ ? shared_.data() : private_.data() + bytes;
    if (shared_) std::memset(shared_.data(), 2, bytes);
    from_ = way == direction::get ? other : private_.data();
    to_ = way == direction::get ? private_.data() : other;
  }

  [[nodiscard]] const std::byte* from() const { return from_; }
  [[nodiscard]] std::byte* to() const { return to_; }

 private:
  farcall::segment shared_;
  std::vector<std::byte> private_;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
};

template <class Copy>
void run(benchmark::State& state, direction way, const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const copy_memory memory{way, bytes};
  for (auto _ : state) {
    copy(memory.to(), memory.from(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void libc_copy(void* to, const void* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

void library_copy(void* to, const void* from, std::size_t bytes) noexcept {
  farcall::copy_bytes(to, from, bytes);
}

// Sizes vary from call to call, like in packed arguments: with a constant size, branch
// prediction would flatter the inline path.
template <class Copy>
void run_mixed_small(benchmark::State& state, const Copy& copy) {
  std::vector<unsigned char> sizes(4096);
  unsigned random = 1;
  for (unsigned char& size : sizes) {
    random = random * 1664525U + 1013904223U;
    size = static_cast<unsigned char>(1 + (random >> 24U) % 16);
  }
  const copy_memory memory{direction::put, 4096};
  std::size_t i = 0;
  for (auto _ : state) {
    copy(memory.to(), memory.from(), sizes[i++ % sizes.size()]);
    benchmark::ClobberMemory();
  }
}

// Skips kernels that this processor lacks, with the reason.
void kernel(benchmark::State& state, direction way, std::size_t rank) {
  if (rank >= farcall::all_copy_kernels().size()) {
    state.SkipWithError("this processor has fewer ways to copy");
    return;
  }
  const farcall::copy_kernel& one = farcall::all_copy_kernels()[rank];
  state.SetLabel(one.name);
  run(state, way, one.copy);
}

void all_sizes(benchmark::internal::Benchmark* entry) {
  entry->RangeMultiplier(4)->Range(8, std::int64_t{256} << 20)->UseRealTime();
}

void large_sizes(benchmark::internal::Benchmark* entry) {
  entry->RangeMultiplier(4)->Range(std::int64_t{1} << 20, std::int64_t{256} << 20)->UseRealTime();
}

BENCHMARK_CAPTURE(run, put_memcpy, direction::put, libc_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(run, put_copy_bytes, direction::put, library_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(run, get_memcpy, direction::get, libc_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(run, get_copy_bytes, direction::get, library_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(run, local_memcpy, direction::local, libc_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(run, local_copy_bytes, direction::local, library_copy)->Apply(all_sizes);
BENCHMARK_CAPTURE(kernel, put_1, direction::put, 1)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_2, direction::put, 2)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_3, direction::put, 3)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_4, direction::put, 4)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_5, direction::put, 5)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_6, direction::put, 6)->Apply(large_sizes);
BENCHMARK_CAPTURE(kernel, put_7, direction::put, 7)->Apply(large_sizes);

// Lambdas, so that both can be inlined fully.
void mixed_1_to_16_memcpy(benchmark::State& state) {
  run_mixed_small(
      state, [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}
BENCHMARK(mixed_1_to_16_memcpy);

void mixed_1_to_16_copy_bytes(benchmark::State& state) {
  run_mixed_small(state, [](void* to, const void* from, std::size_t bytes) {
    farcall::copy_bytes(to, from, bytes);
  });
}
BENCHMARK(mixed_1_to_16_copy_bytes);

} // namespace

BENCHMARK_MAIN();
