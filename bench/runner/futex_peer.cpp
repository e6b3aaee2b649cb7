// SPDX-License-Identifier: Apache-2.0
#include "futex_peer.hpp"
#include "spin.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <atomic>
#include <cerrno>
#include <new>

#include <fmt/format.h>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::tool {

/// Two futexes, each written by one side.
struct futex_peer::board {
  alignas(128) std::atomic<std::uint32_t> ping{0};
  alignas(128) std::atomic<std::uint32_t> pong{0};
  alignas(128) std::atomic<bool> wakes_caller{true};
};

namespace {

using word = std::atomic<std::uint32_t>;

/// Number of spins after which a spinning caller checks that the peer still runs.
constexpr std::uint32_t spins_between_checks = 1U << 22;

void wake(word& w) { syscall(SYS_futex, &w, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

/// Sleeps at once. Returns false after a second without a change, so that a process which has gone
/// is not waited for.
bool sleep_until(word& w, std::uint32_t value) {
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  for (;;) {
    const std::uint32_t now =
        w.load(std::memory_order_acquire); // partner: the stores of pong, ping
    if (now == value) return true;
    if (syscall(SYS_futex, &w, FUTEX_WAIT, now, &second, nullptr, 0) != 0 && errno == ETIMEDOUT)
      return false;
  }
}

/// Returns false after some seconds without a change.
bool spin_until(const word& w, std::uint32_t value) {
  for (std::uint32_t spins = 0; spins < spins_between_checks; ++spins) {
    if (w.load(std::memory_order_acquire) == value) return true; // partner: the store of pong
    spin_pause();
  }
  return false;
}

} // namespace

futex_peer::futex_peer(core_pair cores) {
  void* memory =
      mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw failed_run(fmt::format("cannot map a shared page: {}", reason_text(errno)));
  shared_ = new (memory) board;
  const pid_t parent = getpid();
  process_ = std::make_unique<forked_process>([this, cores, parent] {
    pin_this_thread(cores.target);
    for (std::uint32_t expected = 1; !orphaned(parent);) {
      if (!sleep_until(shared_->ping, expected)) continue;
      shared_->pong.store(expected, std::memory_order_release); // partner: the loads of pong
      // Relaxed: the caller has stored it before ping.
      if (shared_->wakes_caller.load(std::memory_order_relaxed)) wake(shared_->pong);
      ++expected;
    }
    return 0;
  });
}

futex_peer::~futex_peer() {
  process_.reset();
  munmap(shared_, sizeof(board));
}

void futex_peer::round_trips(std::size_t count, caller how) {
  shared_->wakes_caller.store(how == caller::asleep, std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    shared_->ping.store(++sent_, std::memory_order_release); // partner: the load in sleep_until()
    wake(shared_->ping);
    while (!(how == caller::asleep ? sleep_until(shared_->pong, sent_)
                                   : spin_until(shared_->pong, sent_))) {
      if (!process_->alive()) throw failed_run("the other side has gone: " + process_->fate());
    }
  }
}

} // namespace farcall::tool
