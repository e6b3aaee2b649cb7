#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/message.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/endpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace farcall::am {

class pending_call;

/// A reply as it lies in memory. Bytes are valid during the call that gets it only, and are aligned
/// to 8 bytes for replies in a record, to 16 for rendezvous replies.
struct reply_view {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// Reads a reply into the storage of `slot`, or, with `destroy` set, destroys what was read. Runs
/// with the lane's guard held: must not call farcall. May throw when reading.
enum class reply_action : bool { read, destroy };
using reply_reader = void (*)(pending_call& slot, reply_action action, reply_view what);

/// Size of a pending call's inline storage for a result, in bytes.
inline constexpr std::size_t call_storage = 48;

/// Arguments of at most so many bytes fit a record of any lane.
inline constexpr std::uint32_t short_arguments = record_limit(smallest_ring) - request_body;

class alignas(line_bytes) pending_call : public completion {
 public:
  pending_call(client& owner, requester& l, biased_lock& guard, std::uint32_t index) noexcept
      : completion(&owner, &l, guard), index_(index) {
    // What is not ready is in flight.
    ready_.store(true, std::memory_order_relaxed);
  }
  ~pending_call() = default;

  [[nodiscard]] std::byte* storage() noexcept { return storage_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class requester;

  /// Sent, and without its reply. With the guard held.
  [[nodiscard]] bool is_in_flight() const noexcept {
    return !ready_.load(std::memory_order_relaxed);
  }
  void destroy_result() noexcept { read_(*this, reply_action::destroy, {}); }

  enum class stopping : std::uint8_t {
    no,
    possible,  ///< requester::stop() tells the peer
    requested, ///< abandoned, and the peer is told
  };

  std::uint32_t index_;
  stopping stopping_ = stopping::no; ///< of a call in flight
  reply_reader read_ = nullptr;
  std::byte* request_block_ = nullptr; ///< arguments in our heap, until the reply comes
  union {
    pending_call* next_free;    ///< while it is free
    std::uint64_t stoppable_id; ///< while a call that can be stopped is in flight
  } kept_{nullptr};
  alignas(16) std::byte storage_[call_storage];
};

struct call_chunk;

/// The end that opened a lane: sends requests to one worker of one node and takes its replies. Used
/// under `guard`, which costs the thread that owns the lane next to nothing.
class requester final : private fork_observer {
 public:
  requester(client& owner, const endpoint& c, doorbell& wakes);
  requester(const requester&) = delete;
  requester& operator=(const requester&) = delete;
  ~requester();

  [[nodiscard]] node_id peer() const noexcept { return endpoint_.peer; }
  [[nodiscard]] client& owner() const noexcept { return *owner_; }
  [[nodiscard]] biased_lock& guard() noexcept { return guard_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// Most bytes of arguments that fit a record.
  [[nodiscard]] std::uint32_t largest_arguments() const noexcept {
    return record_limit(endpoint_.out.size) - request_body;
  }

  /// Throws error when the peer cannot fetch `bytes` of arguments, which do not fit a record.
  void require_long_arguments(std::uint64_t bytes) const {
    if (!endpoint_.takes_long) refuse_long_arguments(bytes);
  }

  // ---- with the guard held ----

  /// Space for a request with `bytes` of arguments, or null when the ring is full or the peer has
  /// failed. Arguments go to the returned address, which is aligned to 16 bytes.
  [[nodiscard]] std::byte* try_reserve_request(std::uint32_t bytes) noexcept {
    std::byte* record = try_reserve(endpoint_.out, request_body + bytes);
    return record == nullptr ? nullptr : record + request_body;
  }

  /// Sends the request whose arguments were written at `arguments`. `slot` may be null: no reply.
  void commit_request(std::byte* arguments, std::uint32_t bytes, handler_key key,
                      pending_call* slot, std::uint32_t extra = 0,
                      record_kind kind = record_kind::request) noexcept {
    std::byte* record = arguments - request_body;
    auto* header = new (record) request_header;
    header->record.slot = slot == nullptr ? no_slot : slot->index_;
    header->key = key;
    header->extra = extra;
    if (slot != nullptr) slot->ready_.store(false, std::memory_order_relaxed);
    commit(endpoint_.out, record, request_body + bytes, kind);
  }

  /// take_call() will not throw.
  [[nodiscard]] bool has_free_call() const noexcept { return free_ != nullptr; }

  /// The peer can be told of calls that are stopped.
  [[nodiscard]] bool takes_stops() const noexcept { return endpoint_.takes_stops; }

  /// The call that was just sent has a stoppable_prefix with this id: stop() tells the peer.
  void make_stoppable(pending_call& slot, std::uint64_t id) noexcept {
    slot.stopping_ = pending_call::stopping::possible;
    slot.kept_.stoppable_id = id;
    slot.ends_simply_ = false;
  }

  /// A free pending call whose reply will be read by `read`. Throws std::bad_alloc.
  [[nodiscard]] pending_call& take_call(reply_reader read) {
    if (free_ == nullptr) [[unlikely]]
      grow();
    pending_call& slot = *free_;
    free_ = slot.kept_.next_free;
    slot.read_ = read;
    return slot;
  }

  /// A pending call that was taken but not sent, or whose reply has been dealt with.
  void return_call(pending_call& slot) noexcept {
    if (slot.failure_) [[unlikely]]
      slot.failure_ = nullptr;
    push_free(slot);
  }

  /// Pending calls that are in flight or held. Counts the others.
  [[nodiscard]] std::size_t taken() const noexcept;

  /// Pending calls that somebody holds.
  [[nodiscard]] std::size_t held() const noexcept { return taken() - abandoned_; }

  /// Ends a pending call that was taken but not sent.
  void fail_call(pending_call& slot, std::exception_ptr why) noexcept;

  /// Keeps the arguments' block until the reply comes.
  void attach_block(pending_call& slot, std::byte* block) noexcept {
    slot.request_block_ = block;
    slot.ends_simply_ = false;
  }

  /// Reads the replies that are there and marks their pending calls ready; returns how many. What
  /// is to run afterwards is left for take_due().
  std::size_t pump() noexcept;

  /// Continuations to run once the guard is released.
  [[nodiscard]] continuation_list take_due() noexcept { return std::exchange(due_, {}); }

  void fail(const std::exception_ptr& why) noexcept;
  /// The engine ends before the holders of some pending calls, all of which are ready. Returns how
  /// many.
  [[nodiscard]] std::size_t leave_engine() noexcept;
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  /// Its connection has ended, which says nothing about the node. Any thread may ask.
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }

  /// The peer's key for each of our handlers, once the layer above has worked it out. Written and
  /// read by the lane's users in that layer; null before.
  std::atomic<const handler_key*> keys{nullptr};

  /// Threads' sets of lanes that have it; guarded by the engine's mutex. Zero for a lane that was
  /// opened by itself.
  std::uint32_t thread_uses = 0;

  // ---- without it ----

  /// The holder of a ready pending call has taken or destroyed the result.
  void free_call(pending_call& slot) noexcept {
    guard_.lock();
    return_call(slot);
    guard_.unlock();
  }
  /// The same for a pending call that has not failed.
  void free_good_call(pending_call& slot) noexcept {
    if (const biased_lock::as_owner held(guard_); held) [[likely]] {
      push_free(slot);
    } else {
      free_call(slot);
    }
  }

  /// The holder of a pending call lets go of it, ready or not; a late reply is read and dropped.
  void abandon(pending_call& slot) noexcept;
  /// The same, and where the call can be stopped, the peer is told, if it has not answered yet.
  void stop(pending_call& slot) noexcept;

  /// Moves bytes where they do not move by themselves, unless there are replies to take anyway.
  void progress() noexcept {
    if (moves_bytes() && !has_reply()) endpoint_.driver->progress();
  }
  /// Before a sleep on the lane's doorbell; see lane_driver::arm().
  void arm() noexcept {
    if (moves_bytes()) endpoint_.driver->arm();
  }

  /// True when pump() would find something. Any thread may ask.
  [[nodiscard]] bool has_reply() const noexcept {
    // What a failed lane still holds will not be taken, and may be gone. Acquire; partner: the
    // release store at the end of fail(), where all pending calls are ready.
    if (is_over_.load(std::memory_order_acquire)) return false;
    // Acquire; partner: the release store in pump(). Whoever finds no reply because another thread
    // has taken it sees that its pending call is ready.
    return has_record(endpoint_.in, seen_.load(std::memory_order_acquire));
  }

 private:
  /// What holds the lane finds no space, and asks the client, which knows why.
  void after_fork_in_child() noexcept override { disconnect(endpoint_); }

  [[noreturn]] void refuse_long_arguments(std::uint64_t bytes) const;
  [[nodiscard]] bool moves_bytes() const noexcept {
    // Acquire; partner: as in has_reply().
    return endpoint_.driver != nullptr && !is_over_.load(std::memory_order_acquire);
  }
  void grow();
  void push_free(pending_call& slot) noexcept {
    slot.kept_.next_free = free_;
    free_ = &slot;
  }
  /// The call that is answered; null, and logged, for one that was not made.
  [[nodiscard]] pending_call* find(record_view reply) noexcept;
  void take_reply(record_view record) noexcept;
  void take_other_reply(record_view record) noexcept;
  /// The peer can no longer be understood, or reached.
  void lose(record_kind why) noexcept;
  void read_rendezvous(pending_call& slot, const record_view& record);
  void finish(pending_call& slot) noexcept;
  void finish_slow(pending_call& slot) noexcept;
  void let_go_of(pending_call& slot) noexcept;
  void send_releases() noexcept;

  client* owner_;
  endpoint endpoint_;
  doorbell* wakes_;
  pending_call* free_ = nullptr;
  std::size_t abandoned_ = 0; ///< in flight and held by nobody
  continuation_list due_;
  std::atomic<std::uint64_t> seen_{0}; ///< where the next reply will be
  std::exception_ptr failure_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_over_{false};    ///< fail() has ended all calls
  std::vector<call_chunk*> chunks_;     ///< owned
  std::vector<std::uint64_t> releases_; ///< peer's blocks that we are done with
  biased_lock guard_;
};

} // namespace farcall::am
