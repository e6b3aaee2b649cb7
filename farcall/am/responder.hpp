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

/// Tells the requester why a lane is not served, and that nothing follows.
void refuse_lane(outbox& out, std::string_view why) noexcept;

/// Serving end of a lane: takes requests in order, one at a time, runs their handlers and replies.
/// Used by one thread at a time, that of the worker that has it; while a handler waits, the next
/// one begins on another fiber, so a handler that calls back to its caller cannot deadlock. A
/// handler that has waited may run on while another worker has the lane; it only replies, with a
/// lock.
class responder final : private fork_observer {
 public:
  /// A handler whose runs are recorded.
  struct traced_handler {
    handler run;
    handler_key key = 0;
  };
  /// A handler_function whose context is a traced_handler.
  static void run_traced(request_context& request, const void* context) noexcept;

  responder(engine& e, const endpoint& c);
  responder(const responder&) = delete;
  responder& operator=(const responder&) = delete;
  ~responder() override;

  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// Handlers that wait, or have returned, will reply later.
  [[nodiscard]] bool defers() const noexcept;

  /// Requests that are served next count as those of that worker.
  void count_in(worker_counters& by) noexcept { by_ = &by; }
  /// Now and then, by the worker that has the lane.
  void count_bytes() noexcept {
    // While others reply, too, they have the ring of answers.
    if (shares_replies_ || counts_->bytes_in == endpoint_.in.tail) return;
    counts_->bytes_in = endpoint_.in.tail;
    counts_->bytes_out = endpoint_.out.head;
  }

  /// Serves one request if there is one, and if earlier replies have found space.
  bool serve_one() noexcept;
  /// Replies to the next request, if there is one, that it is not run: too many handlers wait.
  bool refuse_one() noexcept;

  /// A handler is about to wait, for the first time in its worker's turn, and, with `shares`, may
  /// reply from now on while another worker has the lane; and at the end of that turn, when its
  /// thread has nothing to do with the lane any more.
  void begin_wait(bool shares) noexcept;
  void end_wait() noexcept {
    // Release; partner: the acquire load in has_waiting().
    waiting_.fetch_sub(1, std::memory_order_release);
  }
  /// Handlers that have waited are under way, on any worker's thread.
  [[nodiscard]] bool has_waiting() const noexcept {
    // Acquire; partner: the release subtraction in end_wait().
    return waiting_.load(std::memory_order_acquire) != 0;
  }
  /// While a handler waits, as the one that asks is about to, another worker may have the lane.
  [[nodiscard]] bool can_be_taken_while_waiting() const noexcept {
    return current_bytes_ == 0 && shares_replies_;
  }
  // Relaxed: lane_in_use and the engine's accept_mutex_ give the order.
  /// Otherwise it is pinned to its worker meanwhile.
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool is_pinned() const noexcept {
    return pins_.load(std::memory_order_relaxed) != 0;
  }
  /// The next request was there at an earlier look, before `since`. Any thread, one at a time.
  [[nodiscard]] bool has_waited_since(time_point now, time_point since) noexcept;

  /// Sends replies that found no space before; true when none is left.
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
  /// end with node_failed. The lane stays taken, because the peer may still write to it.
  /// The requester learns why, if its ring has space for that.
  void refuse_more(std::string_view why) noexcept;
  [[nodiscard]] bool is_cut() const noexcept { return cut_.load(std::memory_order_acquire); }

  /// The number by which its caller's events name the lane.
  void name_lane(std::uint32_t callers_number) noexcept;

  /// The caller has read a rendezvous reply. Ignores what is not such a reply.
  void release_reply(std::uint64_t address) noexcept;

 private:
  friend class deferred_reply;
  friend class request_context;

  /// Other threads may reply too, one at a time, as long as handlers wait or will reply later.
  /// Throws std::bad_alloc.
  [[nodiscard]] counted_ptr<reply_port> share_replies();
  void lock_replies(request_context& request) noexcept;
  void unlock_replies(request_context& request) noexcept;

  /// Requests, and replies to them, are the parent's business; of a handler that runs, too.
  void after_fork_in_child() noexcept override {
    disconnect(endpoint_);
    cut_.store(true, std::memory_order_relaxed);
    if (!port_) return;
    // Another thread may have held the lock.
    new (&port_->mutex) std::mutex;
    port_->lane = nullptr;
  }

  /// Replies that found no space, and rendezvous replies that are not read yet: what calls rarely
  /// need.
  struct backlog;

  /// What next_request() does beside looking for one need not be done.
  [[nodiscard]] bool is_plain() const noexcept {
    return !blocked() && current_bytes_ == 0 && !cut_.load(std::memory_order_relaxed) &&
           !shares_replies_;
  }
  /// The next request; nothing when there is none that can be served now.
  [[nodiscard]] record_view next_request() noexcept;
  void run(request_context& request, handler_key key) noexcept;
  void run_rendezvous(request_context& request, handler_key key) noexcept;
  void run_stoppable(request_context& request, handler_key key, record_kind kind) noexcept;
  void reply_nothing(request_context& request) noexcept;
  void release_current() noexcept;
  /// Locks the replies until the next send(), or the end of the request.
  std::byte* reserve(request_context& request, std::uint32_t bytes);
  std::byte* reserve_aside(request_context& request, std::uint32_t bytes);
  void send(request_context& request, std::byte* record, std::uint32_t bytes,
            record_kind kind) noexcept;
  bool flush_locked() noexcept;
  /// Until there is space.
  void keep(std::uint32_t bytes, record_kind kind) noexcept;

  [[nodiscard]] std::uint32_t number_in_events(trace::recorder& by) noexcept;
  /// Where the request that runs lies in the ring, or lay.
  [[nodiscard]] std::uint64_t position_of(const request_context& request) const noexcept;

  static constexpr std::uint64_t no_position = UINT64_MAX;

  engine* engine_;
  endpoint endpoint_;
  server_counters* counts_;
  worker_counters* by_;                   ///< of the worker that has the lane
  std::uint32_t current_bytes_ = 0;       ///< of the record that a handler reads; 0: none
  std::atomic<std::uint32_t> waiting_{0}; ///< turns in which a handler has waited
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<std::uint64_t> seen_{0}; ///< where the next request will be
  std::atomic<bool> blocked_{false};
  std::atomic<bool> cut_{false}; ///< either of the two
  std::atomic<bool> is_abandoned_{false};
  bool shares_replies_ = false;           ///< by port_, at the moment
  std::uint64_t looked_at_ = no_position; ///< for has_waited_since()
  time_point first_look_{};
  std::uint32_t lane_number_ = 0; ///< in events; 0: there were none
  counted_ptr<reply_port> port_;
  backlog* backlog_; ///< owned
};

// ---- what every call goes through, inline ----

inline void responder::release_current() noexcept {
  farcall::release(endpoint_.in, std::exchange(current_bytes_, 0));
  // Relaxed: only a hint for has_request().
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
  // A reservation in the ring that is not committed is simply made again.
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

inline void request_context::release() noexcept {
  if (released_) return;
  released_ = true;
  lane_->release_current();
}

inline std::uint32_t request_context::largest_reply() const noexcept {
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
