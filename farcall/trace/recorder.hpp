// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/fork.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/trace/event.hpp>
#include <farcall/trace/tick_clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::trace {

class event_ring;

/// An end of a lane. Events refer to it by its number.
struct lane_description {
  std::uint32_t number = 0; ///< number of the lane end, unique in its process; starts at 1
  node_id peer = no_node;
  bool is_caller = false;
  std::uint32_t peers_number = 0; ///< at the server's end: the caller's number for the lane; 0 if
                                  ///< unknown
};

/// Events of a thread, in the order in which they were recorded.
struct thread_events {
  std::uint32_t thread = 0;        ///< numbered in its process
  std::int64_t process_thread = 0; ///< the system's number
  std::string name;
  std::uint64_t missed = 0; ///< number of events that were dropped so far because the ring was full
  std::vector<event> events;
};

/// Events that were recorded, and descriptions that were added, since the last call of
/// recorder::take().
struct recorded {
  std::vector<thread_events> threads;
  std::vector<lane_description> lanes; ///< new or updated ones
  std::uint32_t first_range = 0;       ///< number of the first name that `ranges` contains
  std::vector<std::string> ranges;     ///< new names
};

/// Records events of one job in one process. Each thread records in its own ring, which another
/// thread empties. A recorder is never destroyed, so that threads can use it at any time. After
/// stop(), events are dropped. The idea of per-thread rings that are emptied concurrently is from
/// ftrace.
class recorder final : private fork_observer {
 public:
  static constexpr std::size_t events_of_thread = std::size_t{1} << 17;

  /// Makes a recorder that holds at most `events` events of each thread until they are taken.
  /// `events` is a power of two. Throws std::bad_alloc.
  [[nodiscard]] static recorder& make(std::size_t events = events_of_thread);
  /// Returns the newest recorder that was not stopped, or null if there is none. This recorder
  /// records the user's ranges.
  [[nodiscard]] static recorder* current() noexcept {
    return current_.load(std::memory_order_acquire);
  }

  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  [[nodiscard]] bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }
  /// Stops recording.
  void stop() noexcept;
  /// Frees the rings. Called after stop(), once no thread takes events any more.
  void clear() noexcept;
  /// Makes this recorder drop all further events of the calling thread.
  void leave_thread_out();
  /// Sets the name of the calling thread in timelines. The default is "main thread" for the main
  /// thread, and the system's name for other threads.
  void name_thread(std::string name) noexcept;

  [[nodiscard]] std::uint64_t now() const noexcept { return ticks(source_); }
  [[nodiscard]] tick_source source() const noexcept { return source_; }

  /// Records an event of the calling thread. Does not block, except at the thread's first event.
  void record(event_kind kind, std::uint32_t lane, std::uint64_t position, std::uint32_t slot,
              std::uint32_t key, std::uint32_t handle) noexcept {
    record_at(now(), kind, lane, position, slot, key, handle);
  }
  void record_at(std::uint64_t when, event_kind kind, std::uint32_t lane, std::uint64_t position,
                 std::uint32_t slot, std::uint32_t key, std::uint32_t handle) noexcept;

  /// Registers an end of a lane, so that events can refer to it. Returns the number of the lane
  /// end; 0 if memory or numbers have run out.
  [[nodiscard]] std::uint32_t add_lane(node_id peer, bool is_caller) noexcept;
  /// Notes that the caller of lane `number`, which this process serves, uses `peers_number` for the
  /// same lane. With these numbers, events of both ends of the lane can be matched.
  void name_lane(std::uint32_t number, std::uint32_t peers_number) noexcept;
  /// Returns the number that stands for the name of a range in events. Equal names have the same
  /// number. If there are max_ranges other names already, returns the number of the first name.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t number_of_range(std::string_view name);
  static constexpr std::size_t max_ranges = 4096;

  /// True if the ring of some thread is so full that its events should be taken soon.
  [[nodiscard]] bool is_filling();
  /// Takes the recorded events, at most `most` of each thread. Throws std::bad_alloc.
  [[nodiscard]] recorded take(std::size_t most);

 private:
  explicit recorder(std::size_t events);
  void after_fork_in_child() noexcept override;
  /// Returns the ring of the calling thread; null if the thread records no events.
  [[nodiscard]] event_ring* ring_of_thread() noexcept;

  struct cached_ring {
    std::uint64_t serial = 0;
    event_ring* ring = nullptr;
  };
  struct rings_of_thread;
  struct made_ones;

  // The calling thread's ring of the recorder that the thread used last (cached_), and the newest
  // recorder that is on (current_). All modules of a program share these variables, even with
  // hidden visibility.
  static constinit thread_local cached_ring cached_;
  static constinit std::atomic<recorder*> current_;

  const std::uint64_t serial_;
  const std::size_t events_;
  const tick_source source_;
  std::atomic<bool> is_on_{true};
  std::mutex mutex_; ///< guards all members below
  std::uint32_t threads_ = 0;
  std::vector<std::shared_ptr<event_ring>> rings_;
  std::vector<lane_description> lanes_;
  std::vector<std::uint32_t> changed_lanes_;
  std::map<std::string, std::uint32_t, std::less<>> ranges_;
  std::vector<std::string> new_ranges_;
};

/// Ring of events. One thread records events, and another thread takes them.
class event_ring {
 public:
  event_ring(std::size_t size, std::uint32_t thread);

  void add(const event& e) noexcept {
    // Relaxed, because only this thread writes head_.
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ >= size_) [[unlikely]] {
      // Acquire, paired with the release store in take(), so that the events there were read before
      // this thread overwrites them.
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ >= size_) {
        missed_.store(missed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    events_[head & (size_ - 1)] = e;
    // Prefetch the cache line of a later event, so that this thread does not wait for the line when
    // it records that event.
    ring_detail::prefetch_for_write(
        reinterpret_cast<const std::byte*>(&events_[(head + events_ahead) & (size_ - 1)]));
    // Release, paired with the acquire load in take(), so that the event is visible there.
    head_.store(head + 1, std::memory_order_release);
  }

  /// Takes up to `most` events from the ring. Returns true if the ring is no longer needed, because
  /// the recording thread had ended before the call, and all its events have been taken. One thread
  /// at a time may call take().
  [[nodiscard]] bool take(thread_events& to, std::size_t most);
  [[nodiscard]] bool is_filling() const noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return head_.load(std::memory_order_relaxed) - tail >= size_ / 2;
  }
  void name(std::string thread) noexcept { name_ = std::move(thread); }
  /// Notes that the recording thread ends.
  void end() noexcept { has_ended_.store(true, std::memory_order_release); }

 private:
  struct free_memory {
    void operator()(event* at) const noexcept;
  };

  static constexpr std::uint64_t events_ahead = 8;

  const std::size_t size_;
  std::unique_ptr<event[], free_memory> events_;
  std::uint64_t seen_tail_ = 0;
  std::uint32_t thread_;
  std::int64_t process_thread_;
  std::string name_;
  std::atomic<bool> has_ended_{false};
  std::atomic<std::uint64_t> missed_{0};
  alignas(line_bytes) std::atomic<std::uint64_t> head_{0};
  alignas(line_bytes) std::atomic<std::uint64_t> tail_{0};
};

inline void recorder::record_at(std::uint64_t when, event_kind kind, std::uint32_t lane,
                                std::uint64_t position, std::uint32_t slot, std::uint32_t key,
                                std::uint32_t handle) noexcept {
  event_ring* const ring = cached_.serial == serial_ ? cached_.ring : ring_of_thread();
  if (ring == nullptr) return;
  const std::uint32_t kind_and_lane = std::uint32_t{static_cast<std::uint8_t>(kind)}
                                          << event::kind_shift |
                                      (lane & event::lane_mask);
  ring->add({when, position, kind_and_lane, slot, key, handle});
}

/// Records a span of time on the calling thread, from construction to destruction. If `by` is null,
/// costs only a comparison.
class span {
 public:
  span(recorder* by, event_kind begin, std::uint32_t lane = 0, std::uint64_t position = 0) noexcept
      : by_(by != nullptr && by->is_on() ? by : nullptr), begin_(begin), lane_(lane),
        position_(position) {
    if (by_ != nullptr) by_->record(begin_, lane_, position_, 0, 0, 0);
  }
  span(const span&) = delete;
  span& operator=(const span&) = delete;
  ~span() {
    if (by_ == nullptr) return;
    const auto end = static_cast<event_kind>(static_cast<std::uint8_t>(begin_) + 1);
    by_->record(end, lane_, position_, 0, 0, 0);
  }

 private:
  recorder* by_;
  event_kind begin_;
  std::uint32_t lane_;
  std::uint64_t position_;
};

/// Records a span like `span`, but only if begin() is called. The recorded span starts at the
/// construction of the object all the same.
class late_span {
 public:
  late_span(recorder* by, event_kind begin) noexcept
      : by_(by != nullptr && by->is_on() ? by : nullptr), begin_(begin),
        since_(by_ != nullptr ? by_->now() : 0) {}
  late_span(const late_span&) = delete;
  late_span& operator=(const late_span&) = delete;
  ~late_span() {
    if (!has_begun_) return;
    const auto end = static_cast<event_kind>(static_cast<std::uint8_t>(begin_) + 1);
    by_->record(end, 0, 0, 0, 0, 0);
  }

  void begin() noexcept {
    if (by_ == nullptr || has_begun_) return;
    has_begun_ = true;
    by_->record_at(since_, begin_, 0, 0, 0, 0, 0);
  }

 private:
  recorder* by_;
  event_kind begin_;
  bool has_begun_ = false;
  std::uint64_t since_;
};

} // namespace farcall::trace
