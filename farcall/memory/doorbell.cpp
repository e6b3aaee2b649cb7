#include <farcall/memory/doorbell.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Most words that one futex_waitv call takes.
constexpr std::size_t most_doorbells = 128;

/// How often a sleeper polls by itself when nothing can be relied on to wake it.
constexpr std::chrono::milliseconds look_interval{1};

/// The system has refused what it offered, as after a seccomp filter was set up.
std::atomic<bool> is_barrier_refused{false};

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

timespec to_timespec(std::chrono::nanoseconds t) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(t);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((t - seconds).count())};
}

void sleep_on_one(const armed_doorbell& b, time_point deadline) noexcept {
  const time_point now = clock::now();
  if (deadline <= now) return;
  const timespec timeout = to_timespec(deadline - now);
  // An error (notified meanwhile, signal, timeout) means the same to the caller: poll again.
  ::syscall(SYS_futex, &b.which->word, FUTEX_WAIT, b.seen, &timeout, nullptr, 0);
}

/// False when the kernel does not know the call.
bool sleep_on_many(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept {
#ifdef SYS_futex_waitv
  futex_waitv waiters[most_doorbells] = {};
  for (std::size_t i = 0; i < doorbells.size(); ++i) {
    waiters[i].val = doorbells[i].seen;
    waiters[i].uaddr = reinterpret_cast<std::uintptr_t>(&doorbells[i].which->word);
    waiters[i].flags = FUTEX_32;
  }
  // steady_clock is CLOCK_MONOTONIC; this call takes an absolute time.
  const timespec until = to_timespec(deadline.time_since_epoch());
  const long status = ::syscall(SYS_futex_waitv, waiters, static_cast<unsigned>(doorbells.size()),
                                0U, &until, CLOCK_MONOTONIC);
  return status >= 0 || (errno != ENOSYS && errno != EPERM);
#else
  (void)doorbells;
  (void)deadline;
  return false;
#endif
}

} // namespace

void notify(doorbell& b) noexcept {
  // Clears the flag and counts, whether the flag is set or not. Release: whoever sees the new word
  // also sees what we committed before.
  std::uint32_t word = b.word.load(std::memory_order_relaxed);
  while (!b.word.compare_exchange_weak(word, (word | armed_flag) + 1, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  ::syscall(SYS_futex, &b.word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void arm(std::span<armed_doorbell> doorbells) noexcept {
  // Relaxed: the barrier below orders it before our second poll, and makes it visible to every
  // sender that has not yet loaded the flag after its commit.
  for (armed_doorbell& b : doorbells) {
    b.seen = b.which->word.fetch_or(armed_flag, std::memory_order_relaxed) | armed_flag;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (has_asymmetric_barrier() && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0) {
    is_barrier_refused = true;
  }
}

void sleep_on(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept {
  // Far enough away for any wait, near enough for the kernel's arithmetic.
  deadline = std::min(deadline, clock::now() + std::chrono::hours(24));
  if (!has_asymmetric_barrier() || is_barrier_refused || doorbells.size() > most_doorbells) {
    deadline = std::min(deadline, clock::now() + look_interval);
  }
  if (doorbells.size() == 1) {
    sleep_on_one(doorbells.front(), deadline);
  } else if (doorbells.empty() || doorbells.size() > most_doorbells ||
             !sleep_on_many(doorbells, deadline)) {
    const timespec pause = to_timespec(look_interval);
    ::nanosleep(&pause, nullptr);
  }
}

bool has_asymmetric_barrier() noexcept {
  static const bool present = [] {
    const long commands = membarrier(MEMBARRIER_CMD_QUERY);
    return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
           (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  }();
  return present;
}

void register_for_barriers() noexcept {
  if (!has_asymmetric_barrier()) return;
  membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool process_barrier() noexcept {
  return has_asymmetric_barrier() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

} // namespace farcall
