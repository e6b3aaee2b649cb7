// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/call_meter.hpp>
#include <farcall/am/call_pool.hpp>
#include <farcall/am/completion.hpp>
#include <farcall/am/message.hpp>
#include <farcall/am/pending_call.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/endpoint.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {
class peer_keys;
} // namespace farcall

namespace farcall::am {

/// Largest size of arguments, in bytes, that fits a record of even the smallest ring.
inline constexpr std::uint32_t short_arguments = record_limit(min_ring) - request_body;

/// The end of a lane that opened it: sends requests to one worker of one node and receives the
/// replies. Any thread may use it with the guard held. Holding the guard is nearly free for the
/// thread that owns the lane.
class requester final : private fork_observer {
 public:
  requester(client& owner, const endpoint& c, doorbell& wakes);
  requester(const requester&) = delete;
  requester& operator=(const requester&) = delete;
  ~requester() override;

  [[nodiscard]] node_id peer() const noexcept { return endpoint_.peer; }
  [[nodiscard]] client& owner() const noexcept { return *owner_; }
  [[nodiscard]] biased_lock& guard() noexcept { return guard_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// Returns how many bytes of arguments fit a record of this lane.
  [[nodiscard]] std::uint32_t max_arguments() const noexcept {
    return record_limit(endpoint_.out.size()) - request_body;
  }

  /// Throws error if the peer cannot fetch arguments that do not fit a record. `bytes` is their
  /// size.
  void require_long_arguments(std::uint64_t bytes) const {
    if (!endpoint_.takes_long) refuse_long_arguments(bytes);
  }

  // ---- with the guard held ----

  /// Returns space in the ring for `bytes` of arguments, aligned to 16. Returns null if the ring is
  /// full or the lane has failed.
  [[nodiscard]] std::byte* try_reserve_request(std::uint32_t bytes) noexcept {
    const std::uint64_t limit = endpoint_.out.limit;
    std::byte* record = try_reserve(endpoint_.out, request_body + bytes);
    if (record == nullptr) return nullptr;
    if (endpoint_.out.limit != limit) [[unlikely]]
      meter_.begin_interval(endpoint_, request_body + bytes);
    return record + request_body;
  }

  /// Counts one caller that must wait for space in the ring.
  void count_full() noexcept { ++meter_.counts().full; }

  /// Sends the request whose arguments are at `arguments`. `slot` is the request's pending call, or
  /// null for a request without a reply.
  void commit_request(std::byte* arguments, std::uint32_t bytes, handler_key key,
                      pending_call* slot, std::uint32_t extra = 0,
                      record_kind kind = record_kind::request) noexcept {
    std::byte* record = arguments - request_body;
    write_header(record, key, slot, extra);
    commit(endpoint_.out, record, request_body + bytes, kind);
    caller_counters& counts = meter_.counts();
    ++(slot == nullptr ? counts.posts : counts.calls);
    if (meter_.awaits_request()) [[unlikely]]
      note_sent(slot, key, extra);
  }

  /// True if a pending call is free, so that take_call() cannot throw.
  [[nodiscard]] bool has_free_call() const noexcept { return calls_.first_free() != nullptr; }

  /// Sends a request with `bytes` bytes of arguments at the least cost. The function `fill` writes
  /// the arguments to the address that it receives. Sets `slot` to the request's pending call,
  /// whose reply the function `read` will read, or to null for a posted call. Returns false,
  /// without sending, if no pending call is free, or if the ring offers no space without
  /// try_reserve_request().
  template <bool IsPosted, class Fill>
  [[nodiscard]] bool try_send_short(std::uint32_t bytes, handler_key key, std::uint32_t extra,
                                    reply_reader read, const Fill& fill,
                                    pending_call*& slot) noexcept {
    pending_call* const taken = IsPosted ? nullptr : calls_.first_free();
    if (!IsPosted && taken == nullptr) [[unlikely]]
      return false;
    const bool is_sent =
        try_send(endpoint_.out, request_body + bytes, record_kind::request, [&](std::byte* record) {
          if constexpr (!IsPosted) calls_.take_first().read_ = read;
          write_header(record, key, taken, extra);
          fill(record + request_body);
        });
    slot = taken;
    // Count the call after the commit, so that counting does not delay the peer.
    if (is_sent) [[likely]]
      ++(IsPosted ? meter_.counts().posts : meter_.counts().calls);
    return is_sent;
  }

  /// True if the peer accepts requests to stop calls.
  [[nodiscard]] bool takes_stops() const noexcept { return endpoint_.takes_stops; }

  /// Makes the call that was just sent stoppable, so that stop() tells the peer to stop it. `id` is
  /// the id in the call's stoppable_prefix.
  void make_stoppable(pending_call& slot, std::uint64_t id) noexcept {
    slot.stopping_ = pending_call::stopping::possible;
    slot.kept_.stoppable_id = id;
    slot.need_finish();
  }

  /// Takes a free pending call. The function `read` will read its reply. Throws std::bad_alloc.
  [[nodiscard]] pending_call& take_call(reply_reader read) {
    pending_call& slot = calls_.take();
    slot.read_ = read;
    return slot;
  }

  /// Gives back a pending call that was not sent, or whose result the caller no longer needs.
  void return_call(pending_call& slot) noexcept {
    if (slot.failure_) [[unlikely]]
      slot.failure_ = nullptr;
    calls_.give_back(slot);
  }

  [[nodiscard]] call_pool& calls() noexcept { return calls_; }

  /// Returns how many pending calls are in flight or held. Walks the free list, so it is slow.
  [[nodiscard]] std::size_t taken() const noexcept { return calls_.taken(); }

  /// Returns how many pending calls are held by a caller.
  [[nodiscard]] std::size_t held() const noexcept;

  /// Ends a pending call that was taken but not sent with the error `why`, as if that were its
  /// reply.
  void fail_call(pending_call& slot, std::exception_ptr why) noexcept;

  /// Keeps the heap block with the arguments of the call that was just sent until the call's reply
  /// arrives.
  void attach_block(pending_call& slot, std::byte* block) noexcept {
    slot.request_block_ = block;
    slot.need_finish();
  }

  /// Reads the replies that have arrived and marks their pending calls as ready. Returns the number
  /// of replies. The caller must then run the continuations that take_due() returns.
  std::size_t pump() noexcept;

  /// Returns the continuations of ended calls, which the caller must run after it has released the
  /// guard.
  [[nodiscard]] continuation_list take_due() noexcept { return std::exchange(due_, {}); }

  /// Receives replies for as long as a short call takes, until `c` is ready. Call without the
  /// guard. Returns false if `c` is not ready by then, if a reply needs more work than reading, or
  /// if the calling thread does not own the lane.
  [[nodiscard]] bool spin_for(const completion& c, reply_count expected) noexcept;

  /// Ends the lane, and all its calls in flight with the error `why`.
  void fail(const std::exception_ptr& why) noexcept;
  /// Detaches the lane from its engine, which is being destroyed. Returns how many pending calls,
  /// all of them ready, still have holders.
  [[nodiscard]] std::size_t leave_engine() noexcept;
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return end_.why; }
  /// True if callers must open another lane, although the node may be alive. This is the case if
  /// this lane has lost its connection, if the peer has refused to serve it, or if avoid() was
  /// called. Any thread may call it.
  [[nodiscard]] bool is_lost() const noexcept {
    return end_.is_lost.load(std::memory_order_relaxed);
  }
  /// Makes callers open another lane for their next call. Any thread may call it.
  void avoid() noexcept { end_.is_lost.store(true, std::memory_order_relaxed); }

  /// Keys of the peer's callables; null before the first typed call. Used by the layer above.
  std::atomic<const peer_keys*> keys{nullptr};

  /// Number of thread_lanes objects that contain this lane; 0 for a separately opened lane. Guarded
  /// by the lane table's mutex.
  std::uint32_t thread_uses = 0;

  // ---- without it ----

  /// True if the last request of this lane has got its reply. The earlier requests then have their
  /// replies, too, except those whose handlers wait. Always false if the last request wants no
  /// reply.
  [[nodiscard]] bool is_quiet() const noexcept {
    // Acquire, paired with the release store in note_ended(), so that the effects of the handlers
    // are visible.
    return (last_request_.load(std::memory_order_acquire) & is_done) != 0;
  }

  /// True while copies are in progress that must end before later calls of this lane are sent. Used
  /// by the layer above.
  std::atomic<bool> has_transfers{false};

  /// Gives back a ready pending call whose result was moved out or destroyed.
  void free_call(pending_call& slot) noexcept {
    guard_.lock();
    return_call(slot);
    guard_.unlock();
  }
  /// Gives back a ready pending call that has ended without an error. Cheaper than free_call().
  void free_good_call(pending_call& slot) noexcept {
    if (const biased_lock::as_owner held(guard_); held) [[likely]] {
      calls_.give_back(slot);
    } else {
      free_call(slot);
    }
  }

  /// Gives up a pending call, ready or not. If its reply arrives later, the reply is read and
  /// dropped.
  void abandon(pending_call& slot) noexcept;
  /// Gives up the call like abandon(). If the call is stoppable and in flight, also tells the peer
  /// to stop it.
  void stop(pending_call& slot) noexcept;

  /// Polls the lane driver, if the lane has one and no reply has arrived yet.
  void progress() noexcept {
    if (moves_bytes() && !has_reply()) endpoint_.driver->progress();
  }
  /// Prepares the lane for a sleep of the calling thread on the lane's doorbell, by
  /// lane_driver::arm() if the lane has a driver.
  void arm() noexcept {
    if (moves_bytes()) endpoint_.driver->arm();
  }

  /// True if pump() would find a record in the ring. Any thread may call it.
  [[nodiscard]] bool has_reply() const noexcept {
    // Do not read the ring of a failed lane, because its memory may be gone. Acquire, paired with
    // the release store at the end of fail(). If this load reads true, all pending calls of the
    // lane are ready.
    if (end_.is_over.load(std::memory_order_acquire)) return false;
    // Acquire, paired with the release store in pump(). If another thread has received the awaited
    // reply, this thread finds no record here, and afterwards sees that its pending call is ready.
    return has_record(endpoint_.in, seen_.load(std::memory_order_acquire));
  }

 private:
  static constexpr std::uint64_t is_done = std::uint64_t{1} << 32; ///< see last_request_

  /// Closes the ring in a forked child. A caller there then finds no space in the ring and asks the
  /// client, which throws forked.
  void after_fork_in_child() noexcept override { disconnect(endpoint_); }

  /// Writes the header of a request. `slot` is null for a request without a reply.
  void write_header(std::byte* record, handler_key key, pending_call* slot,
                    std::uint32_t extra) noexcept {
    auto* header = new (record) request_header;
    const std::uint32_t number = slot == nullptr ? no_slot : slot->index_;
    header->record.slot = number;
    header->extra = extra;
    // Relaxed, because a thread asks is_quiet() only about requests that it has sent itself. This
    // store must stay between the stores of the header. Otherwise the compiler would combine the
    // header's stores in a vector register, which would be slower.
    last_request_.store(number, std::memory_order_relaxed);
    header->key = key;
    if (slot != nullptr) slot->state_.store(completion::state::pending, std::memory_order_relaxed);
  }

  [[noreturn]] void refuse_long_arguments(std::uint64_t bytes) const;
  void note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept;
  /// Tells the peer the number that identifies the lane in this node's trace events. Returns false
  /// if the ring has no space.
  [[nodiscard]] bool send_lane_name(std::uint32_t number) noexcept;
  [[nodiscard]] bool moves_bytes() const noexcept {
    // Acquire, paired with the release store at the end of fail(), as in has_reply().
    return endpoint_.driver != nullptr && !end_.is_over.load(std::memory_order_acquire);
  }
  void note_ended() noexcept;
  void take_reply(const std::byte* record, std::uint32_t bytes) noexcept;
  [[nodiscard]] pending_call* simple_call_of(const std::byte* reply) noexcept;
  void read_reply(pending_call& slot, const std::byte* record, std::uint32_t bytes) noexcept;
  /// Reads the reply of a measured or recorded call. Returns false, without reading, if the end of
  /// the call needs more work.
  [[nodiscard]] bool read_watched_reply(const std::byte* record, std::uint32_t bytes) noexcept;
  void take_other_reply(const record_view& record) noexcept;
  /// Ends the lane because its peer can no longer be reached, or sends records that make no sense.
  void lose(record_kind why) noexcept;
  void lose_refused(std::string_view why) noexcept;
  void read_rendezvous(pending_call& slot, const record_view& record);
  void finish(pending_call& slot) noexcept;
  void drop(pending_call& slot) noexcept;
  void send_releases() noexcept;

  /// State that says whether, and by which error, the lane has ended.
  struct lane_end {
    std::exception_ptr why;           ///< null before fail()
    std::atomic<bool> is_over{false}; ///< true once fail() has ended all calls
    /// True if callers must open another lane, perhaps before this one has ended.
    std::atomic<bool> is_lost{false};
  };

  client* owner_;
  endpoint endpoint_;
  // The following fields, which each call uses, share two cache lines.
  std::atomic<std::uint64_t> seen_{0}; ///< ring position of the next reply
  /// Number of the last request's pending call, or no_slot if that request wants no reply. The bit
  /// `is_done` is set once the call has ended. Both are in one word, so that a request needs a
  /// single store.
  std::atomic<std::uint64_t> last_request_{no_slot | is_done};
  lane_end end_;
  std::uint32_t stray_replies_ = 0;
  call_pool calls_{*this};
  call_meter meter_;
  continuation_list due_;
  doorbell* wakes_;
  /// Addresses of rendezvous replies that the peer should free.
  std::vector<std::uint64_t> releases_;
  /// Guard of the lane. It begins at a cache line, so that the lane's owner needs only one line of
  /// it.
  alignas(line_bytes) biased_lock guard_;
};

} // namespace farcall::am
