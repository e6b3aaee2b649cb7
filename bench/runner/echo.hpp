// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spin.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/base/error.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <fmt/format.h>

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::tool {

/// Command to an echo, and its state.
enum class echo_state : std::uint32_t { asleep, echoing, quitting };

namespace echo_detail {

/// Returns the spins before the processor is yielded: far more than a round trip needs, and hardly
/// any if both sides share a processor.
[[nodiscard]] constexpr std::uint32_t spin_limit(core_pair cores) {
  return cores.shared() ? 16 : 1U << 16;
}
inline constexpr auto max_wait = std::chrono::seconds{10};

using state_word = std::atomic<echo_state>;
static_assert(state_word::is_always_lock_free);

inline void sleep_while(state_word& word, echo_state value) {
  // Limited, so that an echo whose parent has gone wakes up and notices.
  const timespec limit{.tv_sec = 1, .tv_nsec = 0};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

inline void wake(state_word& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

} // namespace echo_detail

/// A second process that replies to questions through shared memory: measures round trips without
/// the library, or with parts of it. Between measurements it sleeps and leaves its core free.
///
/// `Link` defines the messages. Its `memory` is constructed in the shared mapping. Its `host_side`
/// has ask(is_last), which sends a question, and take(), which returns true once the next reply has
/// arrived; its `echo_side` has reply(), which replies to a question and returns true, or returns
/// false if there is none. Each process constructs its side from the memory. `is_last` marks the
/// last question of a batch. For pipelined(), ask() returns false if there is no space.
///
/// The constructor forks, so create it before any thread or job is started.
template <class Link>
class echo {
 public:
  /// `what` names the measurement in error messages.
  echo(core_pair cores, const char* what) : cores_(cores), what_(what) {
    void* memory =
        mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw failed_run(
          fmt::format("cannot map the shared memory of {}: {}", what, reason_text(errno)));
    }
    shared_ = new (memory) board;
    const pid_t parent = getpid();
    process_ = std::make_unique<forked_process>([this, parent] { return serve(parent); });
    side_ = std::make_unique<typename Link::host_side>(shared_->link);
  }

  ~echo() {
    process_.reset();
    munmap(shared_, sizeof(board));
  }

  echo(const echo&) = delete;
  echo& operator=(const echo&) = delete;
  echo(echo&&) = delete;
  echo& operator=(echo&&) = delete;

  /// Gives a command and waits until the echo has accepted it.
  void tell(echo_state command) {
    shared_->command.store(command, std::memory_order_release); // partner: the load in serve()
    echo_detail::wake(shared_->command);
    const auto deadline = std::chrono::steady_clock::now() + echo_detail::max_wait;
    // Acquire; partner: the stores in serve().
    while (shared_->state.load(std::memory_order_acquire) != command)
      slow_path(deadline);
  }

  /// Makes round trips. Requires the state `echoing`.
  void round_trips(std::size_t calls) {
    typename Link::host_side& side = *side_;
    for (std::size_t left = calls; left > 0; --left) {
      side.ask(left == 1);
      await_reply(side);
    }
  }

  /// Makes round trips, at most `window` of them at a time: waits for the oldest before the next
  /// begins. Requires the state `echoing`.
  void pipelined(std::size_t calls, std::size_t window) {
    typename Link::host_side& side = *side_;
    std::size_t asked = 0;
    for (std::size_t taken = 0; taken < calls; ++taken) {
      while (asked < calls && asked - taken < window && side.ask(asked + 1 == calls))
        ++asked;
      await_reply(side);
    }
  }

  [[nodiscard]] typename Link::host_side& side() { return *side_; }

 private:
  /// Memory that the two processes share.
  struct board {
    typename Link::memory link;
    alignas(128) echo_detail::state_word command{echo_state::asleep}; ///< a futex
    alignas(128) echo_detail::state_word state{echo_state::asleep};
  };

  /// Runs in the echo's process: sleeps until told to echo, then replies until told to sleep.
  int serve(pid_t parent) {
    pin_this_thread(cores_.target);
    typename Link::echo_side side{shared_->link};
    for (;;) {
      // Acquire; partner: the store in tell().
      const echo_state command = shared_->command.load(std::memory_order_acquire);
      if (command == echo_state::quitting || orphaned(parent)) return 0;
      // Release; partner: the load in tell().
      shared_->state.store(command, std::memory_order_release);
      if (command == echo_state::asleep) {
        echo_detail::sleep_while(shared_->command, echo_state::asleep);
        continue;
      }
      for (std::uint32_t spins = 0; spins < echo_detail::spin_limit(cores_);) {
        if (side.reply()) {
          spins = 0;
        } else {
          spin_pause();
          ++spins;
        }
      }
      sched_yield();
    }
  }

  void await_reply(typename Link::host_side& side) {
    std::uint32_t spins = 0;
    while (!side.take()) {
      if (++spins < echo_detail::spin_limit(cores_)) {
        spin_pause();
      } else {
        return wait_patiently();
      }
    }
  }

  void wait_patiently() {
    const auto deadline = std::chrono::steady_clock::now() + echo_detail::max_wait;
    while (!side_->take())
      slow_path(deadline);
  }

  void slow_path(std::chrono::steady_clock::time_point deadline) const {
    if (!process_->alive()) {
      throw failed_run(fmt::format("the second process of {} ended: {}", what_, process_->fate()));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw failed_run(fmt::format("the second process of {} does not reply; is its processor "
                                   "taken by something else?",
                                   what_));
    }
    sched_yield();
  }

  core_pair cores_;
  const char* what_;
  board* shared_ = nullptr;
  std::unique_ptr<forked_process> process_;
  std::unique_ptr<typename Link::host_side> side_;
};

} // namespace farcall::tool
