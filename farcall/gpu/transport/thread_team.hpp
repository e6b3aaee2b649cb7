// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/gpu/transport/slot.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace farcall::cuda {

/// Exception that emulated device code throws where a GPU would trap, for instance at an access to
/// unmapped memory.
struct emulated_fault {
  const char* what;
};

/// Barrier of a team's threads. A waiting thread yields early, since there may be more threads than
/// processors.
class barrier {
 public:
  explicit barrier(std::uint32_t threads) noexcept : threads_(threads) {}

  /// Waits until all threads have called it. Throws emulated_fault if the team was broken up.
  void meet() {
    if (threads_ == 1) return;
    const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
    // Acquire-release, so that writes of each thread before the barrier are visible to all threads
    // afterwards.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    while (turn_.load(std::memory_order_acquire) == turn) {
      check();
      std::this_thread::yield();
    }
  }
  /// Throws emulated_fault if the team was broken up.
  void check() const {
    if (is_broken_up_.load(std::memory_order_acquire)) throw emulated_fault{"the team has ended"};
  }
  /// Makes all threads that wait at the barrier throw. Called when one thread of the team has
  /// ended, so that no other thread waits for it.
  void break_up() noexcept { is_broken_up_.store(true, std::memory_order_release); }

 private:
  std::uint32_t threads_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<bool> is_broken_up_{false};
};

/// Processor threads that emulate a block of a GPU, as one of these threads sees the team. Each
/// thread is a subgroup by itself.
class thread_team {
 public:
  thread_team(barrier& all, void* state, std::uint32_t node, std::uint32_t rank, std::uint32_t size,
              const std::atomic<bool>* is_scattering = nullptr) noexcept
      : all_(&all), state_(state), node_(node), rank_(rank), size_(size),
        is_scattering_(is_scattering) {}

  /// Returns the state that the team shares. The executor knows the state's type.
  [[nodiscard]] void* state() const noexcept { return state_; }

  /// Returns the node of the device that the team belongs to.
  [[nodiscard]] std::uint32_t node() const noexcept { return node_; }

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  void sync() { all_->meet(); }

  // ---- subgroups, which are threads that poll memory together

  [[nodiscard]] std::uint32_t subgroup() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t subgroups() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t subgroup_rank() const noexcept { return 0; }
  [[nodiscard]] std::uint32_t subgroup_size() const noexcept { return 1; }
  void subgroup_sync() noexcept {}
  /// Returns the first thread's value to all threads of the subgroup.
  [[nodiscard]] std::uint32_t broadcast(std::uint32_t value) const noexcept { return value; }
  /// If the whole message of `phase` is in the slot, copies it to `payload` and returns true. The
  /// expected number of words has an effect only on GPUs.
  [[nodiscard]] bool take(const slot& from, std::uint32_t phase, std::uint32_t /*expected*/,
                          std::uint32_t* payload) noexcept {
    return load_slot(from, phase, payload);
  }
  void put(slot& to, const std::uint32_t* payload, std::uint32_t words,
           std::uint32_t phase) noexcept {
    if (is_scattering_ == nullptr || !is_scattering_->load(std::memory_order_relaxed)) {
      store_slot(to, payload, words, phase);
      return;
    }
    // For tests, write the words from the last to the first, with pauses in between. A bus may make
    // whole words visible in any order and at any time.
    for (std::uint32_t i = words; i > 0; --i) {
      store_relaxed(&to.words[i - 1], word_of(payload[i - 1], phase));
      if (i % 4 == 1) std::this_thread::yield();
    }
  }

  // ---- access to words that the team's threads share

  template <class Word>
  [[nodiscard]] Word load(const Word& word) const noexcept {
    return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_relaxed);
  }
  template <class Word>
  void store(Word& word, Word value) noexcept {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  }
  void set_bits(std::uint32_t& word, std::uint32_t bits) noexcept {
    std::atomic_ref(word).fetch_or(bits, std::memory_order_relaxed);
  }
  void clear_bits(std::uint32_t& word, std::uint32_t bits) noexcept {
    std::atomic_ref(word).fetch_and(~bits, std::memory_order_relaxed);
  }
  /// Acquire; partner: release().
  [[nodiscard]] bool acquire(std::uint32_t& word, std::uint32_t expected,
                             std::uint32_t desired) noexcept {
    return std::atomic_ref(word).compare_exchange_strong(expected, desired,
                                                         std::memory_order_acquire);
  }
  void release(std::uint32_t& word, std::uint32_t value) noexcept {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }

  /// Called by the first thread of a subgroup at each stage of a request. Does nothing, because
  /// stages are measured on GPUs only.
  void note(worker_stage /*reached*/) noexcept {}

  /// Returns the time of a clock that all teams share, in nanoseconds.
  [[nodiscard]] static std::uint64_t now() noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch())
            .count());
  }
  /// Pauses between two polls, after `idle` nanoseconds without a message. Throws emulated_fault if
  /// the team was broken up.
  void rest(std::uint64_t idle) {
    if (size_ != 1) return pause();
    if (idle < spin_ns) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  /// Pauses between two polls of a word that the team shares. Lets other threads run, since the
  /// team may have more threads than there are processors. Throws emulated_fault if the team was
  /// broken up.
  void pause() {
    all_->check();
    std::this_thread::yield();
  }
  void stagger() noexcept {}

  /// Team of the calling thread, or null. Defined in the library, so that all parts of a program
  /// share the variable even if they hide their symbols.
  static constinit thread_local thread_team* current;
  /// Makes the calling thread a member of `team`, so that it acts for the team's device. Null ends
  /// the membership.
  static void set_current(thread_team* team) noexcept {
    current = team;
    acting_node = team == nullptr ? no_node : team->node();
  }

 private:
  static constexpr std::uint64_t spin_ns = 20'000;

  barrier* all_;
  void* state_;
  std::uint32_t node_;
  std::uint32_t rank_;
  std::uint32_t size_;
  /// Flag by which tests have words written out of order. May be null.
  const std::atomic<bool>* is_scattering_;
};

} // namespace farcall::cuda
