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

/// One end of a lane, as events name it.
struct lane_description {
  std::uint32_t number = 0; ///< in its process; from 1
  node_id peer = no_node;
  bool is_caller = false;
  std::uint32_t peers_number = 0; ///< of a server's: its caller's number for the lane; 0: unknown
};

/// Events of a thread, in the order in which they were recorded.
struct thread_events {
  std::uint32_t thread = 0;        ///< counted in its process
  std::int64_t process_thread = 0; ///< as the system numbers it
  std::string name;
  std::uint64_t missed = 0; ///< that found no space, up to now
  std::vector<event> events;
};

/// What was recorded since the last time.
struct recorded {
  std::vector<thread_events> threads;
  std::vector<lane_description> lanes; ///< that are new, or are known better
  std::uint32_t first_range = 0;       ///< number of the first of `ranges`
  std::vector<std::string> ranges;     ///< names that are new
};

/// Records events of one job in one process, each thread in a ring of its own that another thread
/// empties. Never destroyed, so that a thread may always record: what it then records is dropped.
/// The idea of rings per thread that are emptied meanwhile is ftrace's.
class recorder final : private fork_observer {
 public:
  static constexpr std::size_t events_of_thread = std::size_t{1} << 17;

  /// Throws std::bad_alloc. `events` of a thread that are not taken yet, at most; a power of two.
  [[nodiscard]] static recorder& make(std::size_t events = events_of_thread);
  /// The last one made that is not stopped, for ranges of the user's; null: none.
  [[nodiscard]] static recorder* current() noexcept {
    return current_.load(std::memory_order_acquire);
  }

  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  [[nodiscard]] bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }
  /// Nothing is recorded from now on.
  void stop() noexcept;
  /// After stop(), once nobody takes anything any more: gives the memory of rings back.
  void clear() noexcept;
  /// What the calling thread does is not recorded.
  void leave_thread_out();
  /// What the calling thread is, for people, in place of the name that it has.
  void name_thread(std::string name) noexcept;

  [[nodiscard]] std::uint64_t now() const noexcept { return ticks(source_); }
  [[nodiscard]] tick_source source() const noexcept { return source_; }

  /// By the thread that does it. Does not block, but for a thread's first event.
  void record(event_kind kind, std::uint32_t lane, std::uint64_t position, std::uint32_t slot,
              std::uint32_t key, std::uint32_t handle) noexcept {
    record_at(now(), kind, lane, position, slot, key, handle);
  }
  void record_at(std::uint64_t when, event_kind kind, std::uint32_t lane, std::uint64_t position,
                 std::uint32_t slot, std::uint32_t key, std::uint32_t handle) noexcept;

  /// A number for an end of a lane; 0 when there is no memory for it.
  [[nodiscard]] std::uint32_t add_lane(node_id peer, bool is_caller) noexcept;
  /// The caller's number for a lane that is served here.
  void name_lane(std::uint32_t number, std::uint32_t peers_number) noexcept;
  /// The number of a range's name, the same for the same text; where there are too many, the first.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t number_of_range(std::string_view name);
  static constexpr std::size_t most_ranges = 4096;

  /// A thread has recorded so much that it should be taken soon.
  [[nodiscard]] bool is_filling();
  /// Takes what has been recorded, `most` events of a thread at most. Throws std::bad_alloc.
  [[nodiscard]] recorded take(std::size_t most);

 private:
  explicit recorder(std::size_t events);
  void after_fork_in_child() noexcept override;
  /// Null where the thread records nothing.
  [[nodiscard]] event_ring* ring_of_thread() noexcept;

  struct cached_ring {
    std::uint64_t serial = 0;
    event_ring* ring = nullptr;
  };
  struct rings_of_thread;
  struct made_ones;

  // One for all parts of a program, whatever they hide.
  static constinit thread_local cached_ring cached_;
  static constinit std::atomic<recorder*> current_;

  const std::uint64_t serial_;
  const std::size_t events_;
  const tick_source source_;
  std::atomic<bool> is_on_{true};
  std::mutex mutex_; ///< of all below
  std::uint32_t threads_ = 0;
  std::vector<std::shared_ptr<event_ring>> rings_;
  std::vector<lane_description> lanes_;
  std::vector<std::uint32_t> changed_lanes_;
  std::map<std::string, std::uint32_t, std::less<>> ranges_;
  std::vector<std::string> new_ranges_;
};

/// One thread records, another takes.
class event_ring {
 public:
  event_ring(std::size_t size, std::uint32_t thread);

  void add(const event& e) noexcept {
    // Relaxed: this thread's own.
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - seen_tail_ >= size_) [[unlikely]] {
      // Acquire; partner: the release store in take().
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head - seen_tail_ >= size_) {
        missed_.store(missed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    events_[head & (size_ - 1)] = e;
    // A message that is sent next must not wait for a line of events.
    ring_detail::prefetch_for_write(
        reinterpret_cast<const std::byte*>(&events_[(head + events_ahead) & (size_ - 1)]));
    // Release; partner: the acquire load in take().
    head_.store(head + 1, std::memory_order_release);
  }

  /// By the thread that takes, one at a time. Whether its thread had ended before, and everything
  /// is taken.
  [[nodiscard]] bool take(thread_events& to, std::size_t most);
  [[nodiscard]] bool is_filling() const noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return head_.load(std::memory_order_relaxed) - tail >= size_ / 2;
  }
  void name(std::string thread) noexcept { name_ = std::move(thread); }
  /// Its thread has ended.
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

/// A span of the calling thread's, which ends with this object. Costs a comparison where `by` is
/// null.
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

/// The same, recorded only if begin() is called, which may be late.
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
