#include "floor.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "spin.hpp"
#include "stopwatch.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/table.hpp>

#include <farcall/base/error.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>

#include <fmt/format.h>

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// The processor's adjacent-line prefetcher fetches pairs of lines, so the two flags lie two lines
/// apart.
constexpr std::size_t apart = 128;
/// Spins without an answer before the processor is offered to others: far more than any round trip
/// needs, and next to none when the other side needs this very processor.
constexpr std::uint32_t spin_limit(core_pair cores) { return cores.shared() ? 16 : 1U << 16; }
constexpr auto longest_wait = std::chrono::seconds{10};

enum : std::uint32_t { asleep = 0, echoing = 1, quitting = 2 };

/// Where in the shared cache a line has its home decides up to a third of the round trip. One pair
/// of lines would be a matter of luck, so each batch uses another of these, as messages in a ring
/// do.
constexpr std::uint64_t places = floor_places;

/// Two flags, each written by one side only.
struct place {
  alignas(apart) std::atomic<std::uint64_t> ping{0}; ///< written by the host
  alignas(apart) std::atomic<std::uint64_t> pong{0}; ///< written by the echo
};

/// What the flags carry: the number of the round trip, and at which place the next one will be.
constexpr std::uint64_t flag_value(std::uint64_t number, std::uint64_t next_place) {
  return number * places + next_place;
}
constexpr std::uint64_t number_in(std::uint64_t flag) { return flag / places; }
constexpr std::uint64_t next_place_in(std::uint64_t flag) { return flag % places; }

/// Shared by the two processes.
struct board {
  std::array<place, places> at;
  alignas(apart) std::atomic<std::uint32_t> command{0}; ///< what the echo shall do; a futex
  alignas(apart) std::atomic<std::uint32_t> state{0};   ///< what the echo does
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  // A bound, so that an echo whose parent has gone wakes up and notices.
  const timespec limit{.tv_sec = 1, .tv_nsec = 0};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// The echo's process: sleeps until told to echo, then answers each ping until told to sleep.
int serve_echo(board& b, core_pair cores, pid_t parent) {
  pin_this_thread(cores.target);
  std::uint64_t answered = 0;
  place* here = b.at.data();
  for (;;) {
    const std::uint32_t command =
        b.command.load(std::memory_order_acquire); // partner: floor_meter::echo::tell
    if (command == quitting || orphaned(parent)) return 0;
    if (command == asleep) {
      b.state.store(asleep, std::memory_order_release);
      sleep_while(b.command, asleep);
      continue;
    }
    b.state.store(echoing, std::memory_order_release);
    for (std::uint32_t spins = 0; spins < spin_limit(cores);) {
      const std::uint64_t asked =
          here->ping.load(std::memory_order_acquire); // partner: the store in round_trips
      if (number_in(asked) == answered + 1) {
        here->pong.store(asked, std::memory_order_release); // partner: the load in round_trips
        ++answered;
        here = &b.at[next_place_in(asked)];
        spins = 0;
      } else {
        spin_pause();
        ++spins;
      }
    }
    sched_yield();
  }
}

} // namespace

struct floor_meter::echo {
  board* shared = nullptr;
  std::unique_ptr<forked_process> process;
  std::uint64_t sent = 0;
  std::uint64_t at = 0;
  core_pair cores;

  explicit echo(core_pair between) : cores(between) {
    void* memory =
        mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw failed_run(
          fmt::format("cannot map the shared memory of the floor: {}", reason_text(errno)));
    }
    shared = new (memory) board;
    const pid_t parent = getpid();
    process = std::make_unique<forked_process>(
        [this, parent] { return serve_echo(*shared, cores, parent); });
  }

  ~echo() {
    process.reset();
    munmap(shared, sizeof(board));
  }

  echo(const echo&) = delete;
  echo& operator=(const echo&) = delete;
  echo(echo&&) = delete;
  echo& operator=(echo&&) = delete;

  /// Gives a command and waits until the echo has taken it up.
  void tell(std::uint32_t command) {
    shared->command.store(command, std::memory_order_release);
    wake(shared->command);
    const auto deadline = std::chrono::steady_clock::now() + longest_wait;
    while (shared->state.load(std::memory_order_acquire) != command)
      slow_path(deadline);
  }

  void slow_path(std::chrono::steady_clock::time_point deadline) const {
    if (!process->alive()) throw failed_run("the floor's second process ended: " + process->fate());
    if (std::chrono::steady_clock::now() > deadline) {
      throw failed_run(
          "the floor's second process does not answer; is its processor taken by something else?");
    }
    sched_yield();
  }

  /// All at one place; the last one moves both sides to the next place.
  void round_trips(std::size_t calls) {
    place& here = shared->at[at];
    for (std::size_t left = calls; left > 0; --left) {
      if (left == 1) at = (at + 1) % places;
      const std::uint64_t asked = flag_value(++sent, at);
      here.ping.store(asked, std::memory_order_release);
      std::uint32_t spins = 0;
      while (here.pong.load(std::memory_order_acquire) != asked) {
        if (++spins < spin_limit(cores)) {
          spin_pause();
        } else {
          wait_patiently(here, asked);
        }
      }
    }
  }

  void wait_patiently(const place& here, std::uint64_t asked) const {
    const auto deadline = std::chrono::steady_clock::now() + longest_wait;
    while (here.pong.load(std::memory_order_acquire) != asked)
      slow_path(deadline);
  }
};

floor_meter::floor_meter(core_pair cores, std::size_t batches, std::size_t calls)
    // On a shared core each round trip is two context switches and the spins before them.
    : floor_probe(cores), batches_(batches), calls_(cores.shared() ? 100 : calls),
      echo_(new echo(cores)) {
  const scoped_pin pin{cores.host};
  echo_->tell(echoing);
  for (std::uint64_t i = 0; i < places; ++i)
    echo_->round_trips(10); // both sides touch every place
  echo_->tell(asleep);
}

floor_meter::~floor_meter() = default;

std::vector<double> floor_meter::take_samples() {
  const scoped_pin pin{cores().host};
  echo_->tell(echoing);
  const std::size_t warm_up = cores().shared() ? 1 : 10; // until both cores run at full speed
  std::vector<double> samples =
      time_batches(batches_, calls_, warm_up, [&] { echo_->round_trips(calls_); });
  echo_->tell(asleep);
  return samples;
}

connection_floor::connection_floor(core_pair cores, std::size_t batches, std::size_t calls)
    : floor_probe(cores), peer_(cores), batches_(batches), calls_(cores.shared() ? 20 : calls) {}

std::vector<double> connection_floor::take_samples() {
  const scoped_pin pin{cores().host};
  peer_.connect();
  std::vector<double> samples = time_batches(batches_, calls_, cores().shared() ? 1 : 5, [&] {
    for (std::size_t i = 0; i < calls_; ++i)
      peer_.round_trip();
  });
  peer_.disconnect();
  return samples;
}

bus_floor::bus_floor(core_pair cores, std::uint32_t device, std::size_t batches, std::size_t calls)
    : floor_probe(cores), code_(code_for_gpus()), device_(device), batches_(batches),
      calls_(calls) {}

std::vector<double> bus_floor::take_samples() {
  const scoped_pin pin{cores().host};
  return code_.time_flags(device_, batches_, calls_);
}

} // namespace farcall::tool
