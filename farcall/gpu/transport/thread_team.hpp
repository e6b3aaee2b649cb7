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

/// Thrown by code that emulates a trap, an access to no memory and the like.
struct emulated_fault {
  const char* what;
};

/// What the threads of a team meet at. Yields early: they may be more than processors.
class barrier {
 public:
  explicit barrier(std::uint32_t threads) noexcept : threads_(threads) {}

  /// Throws emulated_fault when the team was broken up.
  void meet() {
    if (threads_ == 1) return;
    const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
    // Acquire-release: what each has written before is seen by all afterwards.
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
  /// Throws emulated_fault when the team was broken up.
  void check() const {
    if (is_broken_up_.load(std::memory_order_acquire)) throw emulated_fault{"the team has ended"};
  }
  /// One of the threads has ended: nobody shall wait for it.
  void break_up() noexcept { is_broken_up_.store(true, std::memory_order_release); }

 private:
  std::uint32_t threads_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<bool> is_broken_up_{false};
};

/// A team of threads of a processor that stands for a block of a GPU, as one of its threads sees
/// it. Each thread is a group by itself.
class thread_team {
 public:
  thread_team(barrier& all, void* state, std::uint32_t node, std::uint32_t rank, std::uint32_t size,
              const std::atomic<bool>* is_scattering = nullptr) noexcept
      : all_(&all), state_(state), node_(node), rank_(rank), size_(size),
        is_scattering_(is_scattering) {}

  /// What the team shares; the executor knows what it is.
  [[nodiscard]] void* state() const noexcept { return state_; }

  /// The device that the team is a part of.
  [[nodiscard]] std::uint32_t node() const noexcept { return node_; }

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  void sync() { all_->meet(); }

  // ---- groups: threads that look at memory together

  [[nodiscard]] std::uint32_t subgroup() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t subgroups() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t subgroup_rank() const noexcept { return 0; }
  [[nodiscard]] std::uint32_t subgroup_size() const noexcept { return 1; }
  void subgroup_sync() noexcept {}
  /// The first thread's value, for the whole group.
  [[nodiscard]] std::uint32_t broadcast(std::uint32_t value) const noexcept { return value; }
  /// True when the message of `phase` is there, which is then in `payload`. How many words are
  /// expected matters to a bus.
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
    // As a bus may: whole words, in any order, whenever.
    for (std::uint32_t i = words; i > 0; --i) {
      store_relaxed(&to.words[i - 1], word_of(payload[i - 1], phase));
      if (i % 4 == 1) std::this_thread::yield();
    }
  }

  // ---- words that the team's threads share

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

  /// By the first thread of a subgroup.
  void note(worker_stage /*reached*/) noexcept {}

  /// Nanoseconds of a clock that all teams share.
  [[nodiscard]] static std::uint64_t now() noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch())
            .count());
  }
  /// Between two looks, after `idle` nanoseconds without a message. Throws emulated_fault when the
  /// team was broken up.
  void rest(std::uint64_t idle) {
    if (size_ != 1) return pause();
    if (idle < spin_ns) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  /// Between two looks at what the team shares, whose threads may be more than processors. Throws
  /// emulated_fault when it was broken up.
  void pause() {
    all_->check();
    std::this_thread::yield();
  }
  void stagger() noexcept {}

  /// The team whose thread this is, or null. Defined in the library: one for all parts of a
  /// program, whatever they hide.
  static constinit thread_local thread_team* current;
  /// From now on the calling thread is `team`'s, and stands for its device; null: for itself again.
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
  const std::atomic<bool>* is_scattering_; ///< an emulated fault; may be null
};

} // namespace farcall::cuda
