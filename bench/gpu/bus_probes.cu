// SPDX-License-Identifier: Apache-2.0
#include "bus_probes.hpp"
#include "check.hpp"

#include <farcall/gpu/transport/system_scope.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace farcall::gpu {
namespace {

/// Repetitions in each launch. Times stay in shared memory until its end; otherwise fences would
/// wait for them.
constexpr unsigned repetitions = 512;

/// Cycles after which earlier accesses have completed.
constexpr std::uint64_t pause = 4000;

__device__ std::uint64_t cycles() {
  std::uint64_t c;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(c)::"memory");
  return c;
}

/// Keeps later instructions from starting before the value is there.
__device__ void await(std::uint64_t value) {
  asm volatile("{ .reg .pred p; setp.eq.u64 p, %0, -1; @p trap; }" ::"l"(value) : "memory");
}

// ---- operations that are timed; memory is zero, and stays zero
// -----------------------------------

struct no_operation {
  __device__ void operator()() const {}
};
struct read_timer {
  __device__ void operator()() const { await(cuda::clock_ns()); }
};
struct read_relaxed {
  const std::uint64_t* word;
  __device__ void operator()() const { await(cuda::load_relaxed(word)); }
};
struct read_acquire {
  const std::uint64_t* word;
  __device__ void operator()() const { await(cuda::load_acquire(word)); }
};
struct write_relaxed {
  std::uint64_t* word;
  __device__ void operator()() const { cuda::store_relaxed(word, 0); }
};
struct fence_gpu {
  __device__ void operator()() const { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
};
struct fence_system {
  __device__ void operator()() const { cuda::release_fence(); }
};
struct fence_sc_system {
  __device__ void operator()() const { cuda::full_fence(); }
};

/// Runs `before`, untimed, and then counts the cycles of `timed`, repeatedly.
template <class Before, class Timed>
__global__ void time_cycles(Before before, Timed timed, std::uint64_t* taken) {
  __shared__ std::uint64_t here[repetitions];
  for (unsigned i = 0; i < repetitions; ++i) {
    const std::uint64_t begun = cycles();
    while (cycles() - begun < pause) {
    }
    before();
    const std::uint64_t a = cycles();
    timed();
    here[i] = cycles() - a;
  }
  for (unsigned i = 0; i < repetitions; ++i)
    taken[i] = here[i];
}

/// Times reads that wait for each other, by the other clock.
__global__ void time_reads(const std::uint64_t* word, std::uint64_t* taken) {
  __shared__ std::uint64_t here[repetitions];
  constexpr unsigned reads = 32;
  for (unsigned i = 0; i < repetitions; ++i) {
    const std::uint64_t a = cuda::clock_ns();
    for (unsigned k = 0; k < reads; ++k)
      read_relaxed{word}();
    here[i] = (cuda::clock_ns() - a) / reads;
  }
  for (unsigned i = 0; i < repetitions; ++i)
    taken[i] = here[i];
}

struct clock_readings {
  std::uint64_t cycles;
  std::uint64_t ns;
  std::uint64_t min_step;
};

__global__ void compare_clocks(clock_readings* to) {
  constexpr std::uint64_t duration_ns = 20'000'000;
  clock_readings r{0, 0, ~std::uint64_t{0}};
  const std::uint64_t first_cycles = cycles();
  const std::uint64_t first_ns = cuda::clock_ns();
  std::uint64_t before = first_ns;
  while (before - first_ns < duration_ns) {
    const std::uint64_t now = cuda::clock_ns();
    if (now != before && now - before < r.min_step) r.min_step = now - before;
    before = now;
  }
  r.cycles = cycles() - first_cycles;
  r.ns = cuda::clock_ns() - first_ns;
  *to = r;
}

class probes {
 public:
  probes(std::size_t rounds, const probe_visitor& visit) : rounds_(rounds), visit_(&visit) {
    check(cudaMemset(there_.get(), 0, sizeof(std::uint64_t)), "clearing memory");
    check(cudaDeviceSynchronize(), "clearing memory");
  }

  clock_rate run() {
    const pinned<clock_readings> readings;
    compare_clocks<<<1, 1, 0, stream_.get()>>>(readings.get());
    check(cudaGetLastError(), "launching a probe");
    stream_.synchronize();
    const clock_rate rate{static_cast<double>(readings->cycles) / static_cast<double>(readings->ns),
                          static_cast<double>(readings->min_step)};
    cycles_per_ns_ = rate.cycles_per_ns;

    std::uint64_t* const host = host_.get();
    std::uint64_t* const here = there_.get();
    const no_operation nothing;
    time("clock64 by itself", nothing, nothing);
    time("globaltimer", nothing, read_timer{});
    time("read of the host's memory, relaxed", nothing, read_relaxed{host});
    time("read of the host's memory, acquire", nothing, read_acquire{host});
    visit("the same, relaxed, by globaltimer (32 in a row)", 1.0,
          [&](std::uint64_t* to) { time_reads<<<1, 1, 0, stream_.get()>>>(host, to); });
    time("read of the device's memory, relaxed", nothing, read_relaxed{here});
    time("write to the host's memory, until the next instruction", nothing, write_relaxed{host});
    time("fence.acq_rel.gpu", nothing, fence_gpu{});
    time("fence.acq_rel.sys", nothing, fence_system{});
    time("fence.acq_rel.sys, a write to the host under way", write_relaxed{host}, fence_system{});
    time("fence.acq_rel.sys, a write to the device under way", write_relaxed{here}, fence_system{});
    time("fence.sc.sys", nothing, fence_sc_system{});
    time("fence.sc.sys, a write to the host under way", write_relaxed{host}, fence_sc_system{});
    return rate;
  }

 private:
  template <class Before, class Timed>
  void time(const char* what, Before before, Timed timed) {
    visit(what, cycles_per_ns_,
          [&](std::uint64_t* to) { time_cycles<<<1, 1, 0, stream_.get()>>>(before, timed, to); });
  }

  template <class Launch>
  void visit(const char* what, double units_per_ns, Launch&& launch) {
    std::vector<double> ns;
    for (std::size_t round = 0; round < rounds_; ++round) {
      launch(taken_.get());
      check(cudaGetLastError(), "launching a probe");
      stream_.synchronize();
      std::transform(
          taken_.get(), taken_.get() + repetitions, std::back_inserter(ns),
          [&](std::uint64_t units) { return static_cast<double>(units) / units_per_ns; });
    }
    (*visit_)(what, std::move(ns));
  }

  std::size_t rounds_;
  const probe_visitor* visit_;
  double cycles_per_ns_ = 1;
  own_stream stream_;
  pinned<std::uint64_t> host_{16};
  pinned<std::uint64_t> taken_{repetitions};
  device_array<std::uint64_t> there_{16};
};

} // namespace

clock_rate visit_bus_probes(std::size_t rounds, const probe_visitor& visit) {
  return probes(rounds, visit).run();
}

} // namespace farcall::gpu
