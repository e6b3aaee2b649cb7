#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/transport/endpoint.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farcall::am {

/// Serving end of a lane: takes requests in order, one at a time, runs their handlers and replies.
///
/// Held by one thread at a time; a thread that waits inside a handler may serve the lane further
/// (nested), so a handler that calls back to its caller cannot deadlock.
class responder {
 public:
  responder(engine& e, const endpoint& c);
  responder(const responder&) = delete;
  responder& operator=(const responder&) = delete;
  ~responder();

  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// Takes hold for the calling thread; true also when it holds the lane already. The caller
  /// remembers which (`nested`) and lets go only of what it took.
  [[nodiscard]] bool try_hold(bool& nested) noexcept;
  void let_go() noexcept;
  [[nodiscard]] bool held_by_another() const noexcept {
    const void* holder = holder_.load(std::memory_order_relaxed);
    return holder != nullptr && holder != this_thread_mark();
  }

  /// Serves one request if there is one, and if earlier replies have found space. Held.
  bool serve_one() noexcept;

  /// Sends replies that found no space before; true when none is left. Held.
  bool flush() noexcept;

  /// Moves bytes where they do not move by themselves, unless there are requests to serve anyway.
  void progress() noexcept {
    if (endpoint_.driver != nullptr && !has_request()) endpoint_.driver->progress();
  }
  /// Before a sleep on the doorbell of the lane's worker; see lane_driver::arm().
  void arm() noexcept {
    if (endpoint_.driver != nullptr) endpoint_.driver->arm();
  }

  /// Any thread may ask.
  [[nodiscard]] bool has_request() const noexcept {
    return has_record(endpoint_.in, seen_.load(std::memory_order_relaxed));
  }
  /// True while replies wait for space: nobody will notify when there is some.
  [[nodiscard]] bool blocked() const noexcept { return blocked_.load(std::memory_order_relaxed); }

  /// The peer has failed: no more is read, replies are dropped, the lane can be given back.
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

  /// The caller has read a rendezvous reply. Ignores what is not such a reply. Held.
  void release_reply(std::uint64_t address) noexcept;

 private:
  friend class request_context;

  /// Replies that found no space, and rendezvous replies that are not read yet: what calls rarely
  /// need.
  struct backlog;

  void run(request_context& request, handler_key key) noexcept;
  void run_rendezvous(request_context& request, handler_key key) noexcept;
  void reply_nothing(request_context& request) noexcept;
  void release_current() noexcept;
  std::byte* reserve(request_context& request, std::uint32_t bytes);
  std::byte* reserve_aside(request_context& request, std::uint32_t bytes);
  void send(request_context& request, std::byte* record, std::uint32_t bytes,
            record_kind kind) noexcept;
  /// Until there is space.
  void keep(std::uint32_t bytes, record_kind kind) noexcept;

  engine* engine_;
  endpoint endpoint_;
  record_view current_; ///< being read by a handler
  std::atomic<const void*> holder_{nullptr};
  std::atomic<std::uint64_t> seen_{0}; ///< where the next request will be
  std::atomic<bool> blocked_{false};
  std::atomic<bool> cut_{false}; ///< either of the two
  std::atomic<bool> is_abandoned_{false};
  backlog* backlog_; ///< owned
};

// ---- what every call goes through, inline ----

inline void responder::release_current() noexcept {
  farcall::release(endpoint_.in, current_);
  current_ = {};
  // Relaxed: only a hint for has_request().
  seen_.store(endpoint_.in.tail, std::memory_order_relaxed);
}

inline std::byte* responder::reserve(request_context& request, std::uint32_t bytes) {
  if (!blocked() && !is_cut()) [[likely]] {
    if (std::byte* record = try_reserve(endpoint_.out, bytes)) [[likely]] {
      request.reserved_in_ring_ = true;
      return record;
    }
  }
  return reserve_aside(request, bytes);
}

inline void responder::send(request_context& request, std::byte* record, std::uint32_t bytes,
                            record_kind kind) noexcept {
  request.replied_ = true;
  // A reservation in the ring that is not committed is simply made again.
  if (!request.wants_reply()) return;
  std::memcpy(record + offsetof(record_header, slot), &request.slot_, sizeof request.slot_);
  if (request.reserved_in_ring_) [[likely]] {
    commit(endpoint_.out, record, bytes, kind);
  } else {
    keep(bytes, kind);
  }
}

inline void request_context::release() noexcept {
  if (released_) return;
  released_ = true;
  lane_->release_current();
}

inline std::uint32_t request_context::largest_reply() const noexcept {
  return record_limit(lane_->endpoint_.out.size) - reply_body;
}

inline std::byte* request_context::reserve_reply(std::uint32_t bytes) {
  return lane_->reserve(*this, reply_body + bytes) + reply_body;
}

inline void request_context::commit_reply(std::byte* reply, std::uint32_t bytes) noexcept {
  lane_->send(*this, reply - reply_body, reply_body + bytes, record_kind::reply);
}

} // namespace farcall::am
