// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/counters.hpp>
#include <farcall/transport/endpoint.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace farcall::trace {
class recorder;
}

namespace farcall::am {

/// Tells the requester why its lane is not served. Afterwards nothing more is written to the ring.
void refuse_lane(outbox& out, std::string_view why) noexcept;

/// The serving end of a lane: takes requests in order, one at a time, runs their handlers and
/// replies. Only the worker that has the lane uses it. While a handler waits, the next one begins
/// on another fiber, so that a handler that calls its caller back cannot deadlock. If another
/// worker takes the lane in the meantime, the waiting handler stays on its thread and only sends
/// its reply, holding a lock.
class responder final : private fork_observer {
 public:
  /// Runs the handler that handler_table::traced() returns for the request, and records its
  /// beginning and end. While the job is traced, the handler table has this function in place of
  /// each user handler.
  static void run_traced(request_context& request) noexcept;

  responder(engine& e, const endpoint& c);
  responder(const responder&) = delete;
  responder& operator=(const responder&) = delete;
  ~responder() override;

  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// True if replies are still to come from handlers that wait, or that have returned without a
  /// reply.
  [[nodiscard]] bool defers() const noexcept;

  /// Counts the requests that are served from now on in the counters `by` of a worker.
  void count_in(worker_counters& by) noexcept { by_ = &by; }
  /// Publishes how many bytes were received and sent. The worker that has the lane calls it after
  /// batches that were empty or full.
  void count_bytes() noexcept {
    // Do not read the outgoing ring while several threads reply, because reading it would require
    // the lock of the replies.
    if (shares_replies_ || counts_->bytes_in == endpoint_.in.tail) return;
    counts_->bytes_in = endpoint_.in.tail;
    counts_->bytes_out = endpoint_.out.head;
  }

  /// Serves the next request if there is one, unless earlier replies still wait for space. Returns
  /// true if it has served a request.
  bool serve_one() noexcept;
  /// Refuses the next request, if there is one, because too many handlers are waiting.
  bool refuse_one() noexcept;

  /// Notes that a handler waits. The worker calls begin_wait() at the first wait in a batch of
  /// requests, and calls end_wait() after its last use of the lane in that batch. If `shares` is
  /// true, another worker may take the lane during the wait, so that the handler and that worker
  /// must lock the replies of the lane.
  void begin_wait(bool shares) noexcept;
  void end_wait() noexcept {
    // Release, paired with the acquire load in has_waiting(), so that the caller there sees this
    // thread's last use of the lane.
    waiting_.fetch_sub(1, std::memory_order_release);
  }
  /// True if handlers that have waited are still running, on the thread of any worker.
  [[nodiscard]] bool has_waiting() const noexcept {
    // Acquire, paired with the release subtraction in end_wait().
    return waiting_.load(std::memory_order_acquire) != 0;
  }
  /// True if another worker may take the lane over while the calling handler waits.
  [[nodiscard]] bool can_be_taken_while_waiting() const noexcept {
    return current_bytes_ == 0 && shares_replies_;
  }
  // Relaxed, because lane_in_use and the acceptor's mutex already order the accesses.
  /// Keeps the lane at its worker while a handler waits. Needed if can_be_taken_while_waiting() is
  /// false. In that case the handler still reads its record in the ring, or there was no memory for
  /// the lock of the replies.
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool is_pinned() const noexcept {
    return pins_.load(std::memory_order_relaxed) != 0;
  }
  /// True if the next request has waited since `since` or longer. The wait counts from the first
  /// call of this function that has found the request. `now` is the time of this call. Any thread
  /// may call it, but only one at a time.
  [[nodiscard]] bool has_waited_since(time_point now, time_point since) noexcept;

  /// Sends the replies for which there was no space before. Returns true if none is left.
  bool flush() noexcept;

  /// Polls the lane driver, if the lane has one and no request has arrived yet.
  void progress() noexcept {
    if (endpoint_.driver != nullptr && !has_request()) endpoint_.driver->progress();
  }
  /// Prepares the lane for a sleep of the lane's worker on its doorbell, by lane_driver::arm() if
  /// the lane has a driver.
  void arm() noexcept {
    if (endpoint_.driver != nullptr) endpoint_.driver->arm();
  }

  /// True if a request has arrived. Any thread may call it.
  [[nodiscard]] bool has_request() const noexcept {
    return has_record(endpoint_.in, seen_.load(std::memory_order_relaxed));
  }
  /// True while replies wait for space in the ring. The worker must then poll, because the peer
  /// does not notify when there is space.
  [[nodiscard]] bool blocked() const noexcept { return blocked_.load(std::memory_order_relaxed); }

  /// Ends the lane because the peer has failed. From now on requests are ignored, replies are
  /// dropped, and the lane can be reclaimed.
  void abandon() noexcept {
    is_abandoned_.store(true, std::memory_order_release);
    cut_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool is_abandoned() const noexcept {
    return is_abandoned_.load(std::memory_order_acquire);
  }

  /// Ends the lane because the peer sent invalid bytes, or because memory ran out. Further requests
  /// are ignored, and the peer's calls in this lane end with node_failed. The lane's memory stays
  /// in use, because the peer may still write to it. The requester learns the reason if its ring
  /// has space.
  void refuse_more(std::string_view why) noexcept;
  [[nodiscard]] bool is_cut() const noexcept { return cut_.load(std::memory_order_acquire); }

  /// Stores the number that identifies the lane in the caller's trace events.
  void name_lane(std::uint32_t callers_number) noexcept;

  /// Frees a rendezvous reply that the caller has read. Ignores addresses of other memory.
  void release_reply(std::uint64_t address) noexcept;

 private:
  friend class deferred_reply;
  friend class request_context;

  /// Allows other threads to reply, one at a time, until no handler waits and no reply is deferred.
  /// Throws std::bad_alloc.
  [[nodiscard]] counted_ptr<reply_port> share_replies();
  void lock_replies(request_context& request) noexcept;
  void unlock_replies(request_context& request) noexcept;

  /// Cuts the lane in a forked child, because its requests and replies belong to the parent, even
  /// the reply of the handler that forked.
  void after_fork_in_child() noexcept override {
    disconnect(endpoint_);
    cut_.store(true, std::memory_order_relaxed);
    if (!port_) return;
    // Replace the mutex, because another thread of the parent may have held it at the fork.
    new (&port_->mutex) std::mutex;
    port_->lane = nullptr;
  }

  /// State that calls rarely need: replies for which there was no space, and rendezvous replies
  /// that the caller has not read yet.
  struct backlog;

  /// True if next_request() would do nothing else than peek(), so that the caller may call peek()
  /// itself.
  [[nodiscard]] bool is_plain() const noexcept {
    return !blocked() && current_bytes_ == 0 && !cut_.load(std::memory_order_relaxed) &&
           !shares_replies_;
  }
  /// Returns the next request, or an empty view if none can be served now.
  [[nodiscard]] record_view next_request() noexcept;
  void run(request_context& request, handler_key key) noexcept;
  void run_rendezvous(request_context& request, handler_key key) noexcept;
  void run_stoppable(request_context& request, handler_key key, record_kind kind) noexcept;
  void reply_nothing(request_context& request) noexcept;
  void release_current() noexcept;
  /// Returns memory for a reply. If several threads may reply, first locks the replies of the lane.
  /// The lock is held until the reply was sent, or until the end of the request.
  std::byte* reserve(request_context& request, std::uint32_t bytes);
  std::byte* reserve_aside(request_context& request, std::uint32_t bytes);
  void send(request_context& request, std::byte* record, std::uint32_t bytes,
            record_kind kind) noexcept;
  bool flush_locked() noexcept;
  /// Keeps a reply until the ring has space for it.
  void keep(std::uint32_t bytes, record_kind kind) noexcept;

  [[nodiscard]] std::uint32_t number_in_events(trace::recorder& by) noexcept;
  /// Returns the ring position of the running request, even if the request's space was released.
  [[nodiscard]] std::uint64_t position_of(const request_context& request) const noexcept;

  static constexpr std::uint64_t no_position = UINT64_MAX;

  engine* engine_;
  const call_context* context_; ///< the engine's
  endpoint endpoint_;
  server_counters* counts_;
  worker_counters* by_;             ///< counters of the worker that has the lane
  std::uint32_t current_bytes_ = 0; ///< size of the record that a handler is reading, or 0
  /// Number of unfinished batches of requests in which a handler has waited.
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> pins_{0};
  /// Ring position of the next request, as has_request() reads it.
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<bool> blocked_{false};
  std::atomic<bool> cut_{false}; ///< true after abandon() or refuse_more(), and in a forked child
  std::atomic<bool> is_abandoned_{false};
  bool shares_replies_ = false; ///< true while several threads may reply, through port_
  /// Ring position that the last call of has_waited_since() has found.
  std::uint64_t polled_ = no_position;
  time_point first_poll_{};
  std::uint32_t lane_number_ = 0; ///< lane's number in trace events; 0 before the first event
  counted_ptr<reply_port> port_;
  backlog* backlog_; ///< owned
};

// ---- inline functions, because every call executes them ----

inline void responder::release_current() noexcept {
  farcall::release(endpoint_.in, std::exchange(current_bytes_, 0));
  // Relaxed, because other threads use the position only as a hint, in has_request().
  seen_.store(endpoint_.in.tail, std::memory_order_relaxed);
}

inline std::byte* responder::reserve(request_context& request, std::uint32_t bytes) {
  if (shares_replies_) [[unlikely]]
    lock_replies(request);
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
  // A reservation in the ring that is never committed does no harm, because the next reservation
  // overwrites it.
  if (request.wants_reply()) {
    std::memcpy(record + offsetof(record_header, slot), &request.slot_, sizeof request.slot_);
    if (request.reserved_in_ring_) [[likely]] {
      commit(endpoint_.out, record, bytes, kind);
    } else {
      keep(bytes, kind);
    }
  }
  if (request.lock_ == request_context::reply_lock::own) [[unlikely]]
    unlock_replies(request);
}

inline const call_context* request_context::context() const noexcept { return lane_->context_; }

inline void request_context::release() noexcept {
  if (released_) return;
  released_ = true;
  lane_->release_current();
}

inline std::uint32_t request_context::max_reply() const noexcept {
  return record_limit(lane_->endpoint_.out.size()) - reply_body;
}

inline std::byte* request_context::reserve_reply(std::uint32_t bytes) {
  return lane_->reserve(*this, reply_body + bytes) + reply_body;
}

template <class Fill>
bool request_context::try_reply_short(std::uint32_t bytes, const Fill& fill) noexcept {
  responder& l = *lane_;
  if (l.shares_replies_ || l.blocked() || l.is_cut() || !wants_reply()) [[unlikely]]
    return false;
  replied_ =
      try_send(l.endpoint_.out, reply_body + bytes, record_kind::reply, [&](std::byte* record) {
        std::memcpy(record + offsetof(record_header, slot), &slot_, sizeof slot_);
        fill(record + reply_body);
      });
  return replied_;
}

inline void request_context::commit_reply(std::byte* reply, std::uint32_t bytes) noexcept {
  lane_->send(*this, reply - reply_body, reply_body + bytes, record_kind::reply);
}

} // namespace farcall::am
