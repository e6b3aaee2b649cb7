#pragma once

#include <farcall/am/incoming.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/transport/channel.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farcall::am {

/// Serving end of a lane: takes requests in order, one at a time, runs their handlers and answers.
///
/// Held by one thread at a time; a thread that waits inside a handler may serve the lane further
/// (nested), so a handler that calls back to its caller cannot deadlock.
class served_lane {
 public:
  served_lane(engine& e, const channel& c);
  served_lane(const served_lane&) = delete;
  served_lane& operator=(const served_lane&) = delete;
  ~served_lane();

  [[nodiscard]] const channel& ends() const noexcept { return channel_; }

  /// Takes hold for the calling thread; true also when it holds the lane already. The caller
  /// remembers which (`nested`) and lets go only of what it took.
  [[nodiscard]] bool try_hold(bool& nested) noexcept;
  void let_go() noexcept;
  [[nodiscard]] bool held_by_another() const noexcept {
    const void* holder = holder_.load(std::memory_order_relaxed);
    return holder != nullptr && holder != this_thread_mark();
  }

  /// Serves one request if there is one, and if earlier answers have found room. Held.
  bool serve_one() noexcept;

  /// Sends answers that found no room before; true when none is left. Held.
  bool flush() noexcept;

  /// Moves bytes where they do not move by themselves, unless there are requests to serve anyway.
  void progress() noexcept {
    if (channel_.carrier != nullptr && !has_request()) channel_.carrier->progress();
  }
  /// Before a sleep on the bell of the lane's worker; see carrier::watch().
  void watch() noexcept {
    if (channel_.carrier != nullptr) channel_.carrier->watch();
  }

  /// Any thread may ask.
  [[nodiscard]] bool has_request() const noexcept {
    return has_record(channel_.in, seen_.load(std::memory_order_relaxed));
  }
  /// True while answers wait for room: nobody will ring when there is some.
  [[nodiscard]] bool blocked() const noexcept { return blocked_.load(std::memory_order_relaxed); }

  /// The peer has failed: no more is read, answers are dropped, the lane can be given back.
  void abandon() noexcept {
    is_abandoned_.store(true, std::memory_order_release);
    cut_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool is_abandoned() const noexcept {
    return is_abandoned_.load(std::memory_order_acquire);
  }

  /// The peer sent garbage, or memory ran out: no more is read, and the peer's calls in this lane
  /// end with node_failed. The lane stays taken, because the peer may still write to it. Held.
  void refuse_more() noexcept;
  [[nodiscard]] bool is_cut() const noexcept { return cut_.load(std::memory_order_acquire); }

  /// The caller of a long answer has read it. Ignores what is not such an answer. Held.
  void release_answer(std::uint64_t address) noexcept;

 private:
  friend class incoming;

  /// Answers that found no room, and long ones that are not read yet: what calls rarely need.
  struct backlog;

  void run(incoming& request, handler_key key) noexcept;
  void run_long(incoming& request, handler_key key) noexcept;
  void answer_nothing(incoming& request) noexcept;
  void release_current() noexcept;
  std::byte* reserve(incoming& request, std::uint32_t bytes);
  std::byte* reserve_aside(incoming& request, std::uint32_t bytes);
  void send(incoming& request, std::byte* record, std::uint32_t bytes, record_kind kind) noexcept;
  /// Until there is room.
  void keep(std::uint32_t bytes, record_kind kind) noexcept;

  engine* engine_;
  channel channel_;
  record_view current_; ///< being read by a handler
  std::atomic<const void*> holder_{nullptr};
  std::atomic<std::uint64_t> seen_{0}; ///< where the next request will be
  std::atomic<bool> blocked_{false};
  std::atomic<bool> cut_{false}; ///< either of the two
  std::atomic<bool> is_abandoned_{false};
  backlog* backlog_; ///< owned
};

// ---- what every call goes through, inline ----

inline void served_lane::release_current() noexcept {
  farcall::release(channel_.in, current_);
  current_ = {};
  // Relaxed: only a hint for has_request().
  seen_.store(channel_.in.tail, std::memory_order_relaxed);
}

inline std::byte* served_lane::reserve(incoming& request, std::uint32_t bytes) {
  if (!blocked() && !is_cut()) [[likely]] {
    if (std::byte* record = try_reserve(channel_.out, bytes)) [[likely]] {
      request.reserved_in_ring_ = true;
      return record;
    }
  }
  return reserve_aside(request, bytes);
}

inline void served_lane::send(incoming& request, std::byte* record, std::uint32_t bytes,
                              record_kind kind) noexcept {
  request.answered_ = true;
  // A reservation in the ring that is not committed is simply made again.
  if (!request.wants_answer()) return;
  std::memcpy(record + offsetof(record_header, slot), &request.slot_, sizeof request.slot_);
  if (request.reserved_in_ring_) [[likely]] {
    commit(channel_.out, record, bytes, kind);
  } else {
    keep(bytes, kind);
  }
}

inline void incoming::release() noexcept {
  if (released_) return;
  released_ = true;
  lane_->release_current();
}

inline std::uint32_t incoming::largest_answer() const noexcept {
  return record_limit(lane_->channel_.out.size) - reply_body;
}

inline std::byte* incoming::reserve_answer(std::uint32_t bytes) {
  return lane_->reserve(*this, reply_body + bytes) + reply_body;
}

inline void incoming::commit_answer(std::byte* answer, std::uint32_t bytes) noexcept {
  lane_->send(*this, answer - reply_body, reply_body + bytes, record_kind::reply);
}

} // namespace farcall::am
