// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fork.hpp>
#include <farcall/base/system_call.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <utility>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Maximum number of doorbell words that one futex_waitv call can wait for.
constexpr std::size_t max_doorbells = 128;

/// Interval at which a sleeper polls if it cannot rely on notifications.
constexpr std::chrono::milliseconds poll_interval{1};

/// True once the system has refused the barrier after it had offered the barrier at first, for
/// instance because of a new seccomp filter.
std::atomic<bool> is_barrier_refused{false};

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

timespec to_timespec(std::chrono::nanoseconds t) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(t);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((t - seconds).count())};
}

/// End of an attempt to sleep.
enum class sleep_end : unsigned char {
  none, ///< the thread cannot sleep in this way
  usual,
  by_signal,
};

sleep_end sleep_on_one(const armed_doorbell& b, time_point deadline) noexcept {
  const time_point now = clock::now();
  if (deadline <= now) return sleep_end::usual;
  const timespec timeout = to_timespec(deadline - now);
  // Ignore other results than a signal. The caller polls again in any case, after a notification as
  // well as after a timeout.
  const long status =
      ::syscall(SYS_futex, &b.which->word, FUTEX_WAIT, b.seen, &timeout, nullptr, 0);
  return status < 0 && errno == EINTR ? sleep_end::by_signal : sleep_end::usual;
}

/// Sleeps by one call for all doorbells, unless there are too many doorbells, or the kernel does
/// not know the call.
sleep_end sleep_on_many(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept {
#ifdef SYS_futex_waitv
  if (doorbells.size() > max_doorbells) return sleep_end::none;
  futex_waitv waiters[max_doorbells] = {};
  for (std::size_t i = 0; i < doorbells.size(); ++i) {
    waiters[i].val = doorbells[i].seen;
    waiters[i].uaddr = reinterpret_cast<std::uintptr_t>(&doorbells[i].which->word);
    waiters[i].flags = FUTEX_32;
  }
  // This call takes an absolute time of CLOCK_MONOTONIC, which is the clock of steady_clock.
  const timespec until = to_timespec(deadline.time_since_epoch());
  const long status = ::syscall(SYS_futex_waitv, waiters, static_cast<unsigned>(doorbells.size()),
                                0U, &until, CLOCK_MONOTONIC);
  if (status >= 0) return sleep_end::usual;
  if (errno == EINTR) return sleep_end::by_signal;
  return is_call_unavailable(errno) ? sleep_end::none : sleep_end::usual;
#else
  (void)doorbells;
  (void)deadline;
  return sleep_end::none;
#endif
}

/// Returns the common doorbell of the block that contains `b`; null if `b` is in no block. The
/// common doorbell is notified together with `b`. The function computes the result from the address
/// of `b`, because peers can write to the memory.
doorbell* doorbell_of_block(doorbell& b) noexcept {
  if (b.mark != block_mark) return nullptr;
  auto* const at = reinterpret_cast<std::byte*>(&b);
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(at) % block_bytes;
  return reinterpret_cast<doorbell*>(at - offset + block_doorbell_at);
}

void wake_all_on(doorbell& b) noexcept {
  // Clear the flag and count the notification, even if the flag is not set. Release, so that a
  // thread that sees the new word also sees the records that this thread committed before.
  std::uint32_t word = b.word.load(std::memory_order_relaxed);
  while (!b.word.compare_exchange_weak(word, (word | armed_flag) + 1, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  ::syscall(SYS_futex, &b.word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A thread that sleeps on one doorbell in place of several, because futex_waitv is not available
/// or cannot wait for so many doorbells. At least one of the several doorbells is in no block. Only
/// threads of this process notify such a doorbell, and they find the sleeping thread in the list
/// below.
struct several_sleeper {
  doorbell* sleeps_on;
  several_sleeper* next = nullptr;
};

struct several_sleepers {
  std::atomic<std::uint32_t> count{0};
  biased_lock guard; ///< guards the members below
  several_sleeper* first = nullptr;
  std::uint32_t generation = fork_generation();

  static several_sleepers& instance() noexcept {
    static several_sleepers all;
    return all;
  }

  void add(several_sleeper& s) noexcept {
    const std::lock_guard hold(guard);
    // Drop the list after a fork, because the parent's threads do not run in the child.
    if (std::exchange(generation, fork_generation()) != fork_generation()) {
      first = nullptr;
      count.store(0, std::memory_order_relaxed);
    }
    s.next = std::exchange(first, &s);
    // Relaxed, because the caller's fence in sleep_on_several() follows.
    count.fetch_add(1, std::memory_order_relaxed);
  }
  void remove(several_sleeper& s) noexcept {
    const std::lock_guard hold(guard);
    several_sleeper** at = &first;
    while (*at != &s)
      at = &(*at)->next;
    *at = s.next;
    count.fetch_sub(1, std::memory_order_relaxed);
  }
  void wake() noexcept {
    const std::lock_guard hold(guard);
    if (generation != fork_generation()) return;
    for (several_sleeper* s = first; s != nullptr; s = s->next)
      wake_all_on(*s->sleeps_on);
  }
};

/// Sleeps on one doorbell that is notified if any of `doorbells` is, unless the doorbells are in
/// more than one block.
sleep_end sleep_on_several(std::span<const armed_doorbell> doorbells,
                           time_point deadline) noexcept {
  doorbell* block = nullptr;
  bool all_in_block = true;
  for (const armed_doorbell& b : doorbells) {
    doorbell* const its_block = doorbell_of_block(*b.which);
    all_in_block = all_in_block && its_block != nullptr;
    if (its_block == nullptr || its_block == block) continue;
    if (block != nullptr) return sleep_end::none;
    block = its_block;
  }
  doorbell own;
  armed_doorbell one{block != nullptr ? block : &own};
  several_sleeper self{one.which};
  if (!all_in_block) several_sleepers::instance().add(self);
  one.seen = one.which->word.fetch_or(armed_flag, std::memory_order_relaxed) | armed_flag;
  // Fence, paired with the fence in notify(). Either notify() sees that this thread is about to
  // sleep, or this thread sees the word that notify() has changed.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool is_quiet =
      std::all_of(doorbells.begin(), doorbells.end(), [](const armed_doorbell& b) {
        return b.which->word.load(std::memory_order_relaxed) == b.seen;
      });
  const sleep_end end = is_quiet ? sleep_on_one(one, deadline) : sleep_end::usual;
  if (!all_in_block) several_sleepers::instance().remove(self);
  return end;
}

} // namespace

void notify(doorbell& b) noexcept {
  // Compute the address before the wake-up, because a woken thread might destroy `b`.
  doorbell* const block = doorbell_of_block(b);
  wake_all_on(b);
  // Fence, paired with the fence in sleep_on_several(). Either this thread sees the sleeper, or the
  // sleeper sees the word that wake_all_on() has changed.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (block != nullptr) {
    if ((block->word.load(std::memory_order_relaxed) & armed_flag) != 0) wake_all_on(*block);
  } else if (several_sleepers::instance().count.load(std::memory_order_relaxed) != 0) {
    several_sleepers::instance().wake();
  }
}

void arm(std::span<armed_doorbell> doorbells) noexcept {
  // Relaxed, because the barrier below orders this store before the caller's second poll. A sender
  // that has committed a record and has not yet loaded the flag sees the flag after the barrier.
  for (armed_doorbell& b : doorbells) {
    b.seen = b.which->word.fetch_or(armed_flag, std::memory_order_relaxed) | armed_flag;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (has_asymmetric_barrier() && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0) {
    is_barrier_refused = true;
  }
}

bool sleep_on(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept {
  // Limit the time to a day. That is long enough for any wait, and cannot overflow in the kernel.
  deadline = std::min(deadline, clock::now() + std::chrono::hours(24));
  if (!has_asymmetric_barrier() || is_barrier_refused) {
    deadline = std::min(deadline, clock::now() + poll_interval);
  }
  sleep_end end = sleep_end::none;
  if (doorbells.size() == 1) {
    end = sleep_on_one(doorbells.front(), deadline);
  } else if (!doorbells.empty()) {
    end = sleep_on_many(doorbells, deadline);
    if (end == sleep_end::none) end = sleep_on_several(doorbells, deadline);
  }
  if (end != sleep_end::none) return end == sleep_end::by_signal;
  const timespec pause = to_timespec(poll_interval);
  return ::nanosleep(&pause, nullptr) != 0;
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
