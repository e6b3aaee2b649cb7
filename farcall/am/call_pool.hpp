// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/pending_call.hpp>
#include <farcall/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace farcall::am {

class requester;

/// Pending calls of one lane, identified by number. Used with the lane's guard held. Pointers to a
/// pending call stay valid as long as the call is taken, because a pending call never moves and its
/// memory is not given back before.
class call_pool {
 public:
  /// Number of pending calls in a chunk, the unit in which memory is allocated and given back.
  static constexpr std::uint32_t chunk_calls = 256;

  explicit call_pool(requester& lane) noexcept : lane_(&lane) {}
  call_pool(const call_pool&) = delete;
  call_pool& operator=(const call_pool&) = delete;
  ~call_pool();

  /// Returns the pending call that take() would return, or null if take() would have to allocate
  /// memory.
  [[nodiscard]] pending_call* first_free() const noexcept { return free_; }
  /// Takes the pending call first_free(), which must not be null.
  pending_call& take_first() noexcept {
    pending_call& taken = *free_;
    free_ = taken.kept_.next_free;
    return taken;
  }
  /// Takes a free pending call. Throws std::bad_alloc.
  [[nodiscard]] pending_call& take() {
    if (free_ == nullptr) [[unlikely]]
      grow();
    return take_first();
  }
  void give_back(pending_call& taken) noexcept {
    taken.kept_.next_free = free_;
    free_ = &taken;
  }

  /// True if the pool has made a pending call with the number `index`. The memory of that call may
  /// have been given back since, if the call was idle.
  [[nodiscard]] bool has(std::uint32_t index) const noexcept { return index < end_; }
  /// Returns the pending call with the number `index`, for which has() must be true. If the memory
  /// of that call was given back, returns a placeholder that is never in flight.
  [[nodiscard]] pending_call& operator[](std::uint32_t index) noexcept {
    return chunks_[index / chunk_calls]->slot(index % chunk_calls);
  }
  /// Calls f(pending_call&) for each pending call, free or taken.
  template <class F>
  void for_each(const F& f) const noexcept {
    for (chunk* const c : chunks_) {
      if (c == given_back_) continue;
      for (std::uint32_t i = 0; i < chunk_calls; ++i)
        f(c->slot(i));
    }
  }

  /// Returns for how many pending calls memory is allocated.
  [[nodiscard]] std::size_t capacity() const noexcept;
  /// Returns how many pending calls are taken. Walks the free list, so it is slow.
  [[nodiscard]] std::size_t taken() const noexcept;

  /// Gives back the memory of chunks, except the first, whose pending calls have all been free
  /// since the last trim(). Does nothing if `now` is within a second of the last trim().
  void trim(time_point now) noexcept;
  /// Gives back the memory of all chunks whose pending calls are free. Call when the lane has
  /// ended, because it then takes few further calls.
  void give_back_unused() noexcept;
  /// Notes a poll that has found no reply. If there is more than one chunk, one in `trim_polls`
  /// calls of this function calls trim(), so that memory is given back in quiet times.
  void note_idle() noexcept {
    if (end_ > chunk_calls && ++idle_polls_ % trim_polls == 0) [[unlikely]]
      trim(clock::now());
  }

 private:
  /// Number of polls without a reply after which a lane considers giving memory back. A spinning
  /// thread polls several times as often before it sleeps.
  static constexpr std::uint32_t trim_polls = 4096;

  struct chunk {
    chunk(client& owner, requester& lane, biased_lock& guard, std::uint32_t first);
    chunk(const chunk&) = delete;
    chunk& operator=(const chunk&) = delete;
    ~chunk();
    [[nodiscard]] pending_call& slot(std::uint32_t i) noexcept {
      return *std::launder(reinterpret_cast<pending_call*>(memory + i * sizeof(pending_call)));
    }

    std::uint32_t free = 0; ///< number of free calls in the chunk, counted anew in each trim()
    /// Number of calls in the chunk that have been free since the last trim().
    std::uint32_t idle = 0;

    alignas(pending_call) std::byte memory[chunk_calls * sizeof(pending_call)];
  };

  void grow();
  /// Counts the free calls of each chunk, and gives back the memory of chunks for which
  /// goes(chunk) is true. Their pending calls must be free.
  template <class F>
  void give_back_chunks(const F& goes) noexcept;
  [[nodiscard]] chunk& chunk_of(const pending_call& call) const noexcept {
    return *chunks_[call.index() / chunk_calls];
  }
  [[nodiscard]] static chunk* stand_in(requester& lane) noexcept;

  pending_call* free_ = nullptr;
  std::uint32_t end_ = 0; ///< the numbers of pending calls are below this bound
  std::uint32_t idle_polls_ = 0;
  std::vector<chunk*> chunks_; ///< owned, except given_back_
  /// Placeholder for chunks whose memory was given back; null before the first such chunk.
  chunk* given_back_ = nullptr;
  time_point next_trim_{};
  requester* lane_;
};

} // namespace farcall::am
