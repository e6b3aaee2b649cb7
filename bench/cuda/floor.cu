// What no call can beat: one word there and one back, with nothing between.

#include "check.hpp"
#include "pinning.hpp"
#include "session.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/transport/cuda/block_team.cuh>
#include <farcall/transport/cuda/slot.hpp>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace farcall::bench {
namespace {

/// A partner that has gone must not be waited for.
constexpr std::uint64_t longest_silence_ns = 5'000'000'000;
constexpr std::uint64_t most_looks = 100'000'000;
constexpr std::size_t warm_up = 2000;

/// Flags lie in lines of their own. Where a line has its home in the processor's cache matters, so
/// several are used in turn, as slots are.
constexpr std::size_t places = 64;
struct alignas(128) flag {
  std::uint64_t number;
};
struct board {
  flag ping[places];
  flag pong[places];
};

/// Samples of `round(number)`, with numbers from 1 to samples + warm_up.
template <class Round>
std::vector<double> play(std::size_t samples, Round&& round) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < warm_up; ++i)
    round(++number);
  std::vector<double> taken(samples);
  auto before = stopwatch_clock::now();
  for (double& t : taken) {
    round(++number);
    const auto after = stopwatch_clock::now();
    t = ns_between(before, after);
    before = after;
  }
  return taken;
}

template <class Look>
void spin_until(Look&& look) {
  for (std::uint64_t looks = 0; !look(); ++looks) {
    spin_pause();
    if (looks > most_looks) throw std::runtime_error("the other side of the floor is silent");
  }
}

std::vector<double> play_flags(board& b, std::size_t samples) {
  return play(samples, [&](std::uint64_t number) {
    const std::size_t at = number % places;
    std::atomic_ref(b.ping[at].number).store(number, std::memory_order_release);
    const std::atomic_ref answer(b.pong[at].number);
    spin_until([&] { return answer.load(std::memory_order_acquire) == number; });
  });
}

// ---- a thread answers ---------------------------------------------------------------------------

std::vector<double> between_threads(std::size_t samples, int cpu) {
  auto b = std::make_unique<board>();
  std::atomic<bool> is_done{false};
  std::thread echo([&] {
    pin_this_thread(cpu);
    std::uint64_t number = 1;
    while (!is_done.load(std::memory_order_relaxed)) {
      const std::size_t at = number % places;
      if (std::atomic_ref(b->ping[at].number).load(std::memory_order_acquire) != number) {
        spin_pause();
        continue;
      }
      std::atomic_ref(b->pong[at].number).store(number, std::memory_order_release);
      ++number;
    }
  });
  std::vector<double> taken;
  try {
    taken = play_flags(*b, samples);
  } catch (const std::exception&) {
    // No figures then.
  }
  is_done = true;
  echo.join();
  if (taken.empty()) throw std::runtime_error("the other thread of the floor did not run");
  return taken;
}

// ---- a GPU answers ------------------------------------------------------------------------------

__device__ std::uint64_t nanoseconds() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

/// False when nothing has come for too long. The clock is only asked when the wait is long already.
template <class Look>
__device__ bool wait_for(Look&& look) {
  std::uint64_t begun = 0;
  for (std::uint32_t looks = 1;; ++looks) {
    if (look()) return true;
    if (looks % 4096 != 0) continue;
    const std::uint64_t now = nanoseconds();
    if (begun == 0) begun = now;
    if (now - begun > longest_silence_ns) return false;
  }
}

__global__ void echo_flags(board* b, std::uint64_t last) {
  for (std::uint64_t number = 1; number <= last; ++number) {
    const std::uint64_t* const ping = &b->ping[number % places].number;
    const bool came = wait_for([&] {
      std::uint64_t value;
      asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(ping) : "memory");
      return value == number;
    });
    if (!came) return;
    cuda::store_relaxed(&b->pong[number % places].number, number);
  }
}

/// The slots of farcall's lanes, without anything else of it: a warp looks at a whole slot.
struct slot_board {
  cuda::slot down[cuda::ring_slots];
  cuda::slot up[cuda::ring_slots];
};

__global__ void echo_slots(slot_board* b, std::uint64_t last) {
  __shared__ __align__(16) std::uint32_t message[cuda::slot_words];
  cuda::block_team team;
  for (std::uint64_t number = 1; number <= last; ++number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t lap = cuda::lap_of(number);
    if (!wait_for([&] { return team.take(b->down[at], lap, message); })) return;
    team.put(b->up[at], message, cuda::words_of(message[0]), lap);
    __syncwarp();
  }
}

std::vector<double> play_slots(slot_board& b, std::size_t samples, std::uint32_t bytes) {
  alignas(16) std::uint32_t out[cuda::slot_words] = {bytes};
  alignas(16) std::uint32_t back[cuda::slot_words] = {};
  return play(samples, [&](std::uint64_t number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t lap = cuda::lap_of(number);
    cuda::store_slot(b.down[at], out, cuda::words_of(bytes), lap);
    spin_until([&] { return cuda::load_slot(b.up[at], lap, back); });
  });
}

void measure_gpu(session& s) {
  const own_stream stream;
  {
    const pinned<board> b;
    echo_flags<<<1, 1, 0, stream.get()>>>(b.get(), s.asked.samples + warm_up);
    check(cudaGetLastError(), "launching the floor's kernel");
    const row& r = s.out.add_call("flag ping-pong over the bus", play_flags(*b, s.asked.samples));
    s.out.set_floor(r.value.p50);
    stream.synchronize();
  }
  for (const std::uint32_t bytes : {8U, 64U, 256U}) {
    const pinned<slot_board> b;
    echo_slots<<<1, 32, 0, stream.get()>>>(b.get(), s.asked.samples + warm_up);
    check(cudaGetLastError(), "launching the floor's kernel");
    s.out.add_call("slot ping-pong, " + std::to_string(bytes) + " B",
                   play_slots(*b, s.asked.samples, bytes));
    stream.synchronize();
  }
}

} // namespace

void measure_floor(session& s) {
  s.out.begin("floor");
  if (s.is_gpu()) {
    measure_gpu(s);
    return;
  }
  if (s.cpus.size() < 2) {
    s.out.add_note("no floor: it needs two processors");
    return;
  }
  const row& r = s.out.add_call("flag ping-pong between two threads",
                                between_threads(s.asked.samples, s.cpus[1]));
  s.out.set_floor(r.value.p50);
}

} // namespace farcall::bench
