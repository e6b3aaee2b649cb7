#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/message.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/counters.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/endpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {
class counter_segment;
namespace trace {
class recorder;
}
} // namespace farcall

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
    state_.store(state::ended, std::memory_order_relaxed);
  }
  ~pending_call() = default;

  [[nodiscard]] std::byte* storage() noexcept { return storage_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class requester;

  /// Sent, and without its reply. With the guard held.
  [[nodiscard]] bool is_in_flight() const noexcept {
    return state_.load(std::memory_order_relaxed) < state::ended;
  }
  /// The same, and once its reply has been read there is nothing to do but to say so.
  [[nodiscard]] bool ends_simply() const noexcept {
    return state_.load(std::memory_order_relaxed) == state::pending;
  }
  void destroy_result() noexcept { read_(*this, reply_action::destroy, {}); }

  enum class stopping : std::uint8_t {
    no,
    possible,  ///< requester::stop() tells the peer
    requested, ///< abandoned, and the peer is told
  };

  std::uint32_t index_;
  stopping stopping_ = stopping::no; ///< of a call in flight
  bool is_traced_ = false;           ///< its beginning was recorded
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
  ~requester() override;

  [[nodiscard]] node_id peer() const noexcept { return endpoint_.peer; }
  [[nodiscard]] client& owner() const noexcept { return *owner_; }
  [[nodiscard]] biased_lock& guard() noexcept { return guard_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] const endpoint& ends() const noexcept { return endpoint_; }

  /// Most bytes of arguments that fit a record.
  [[nodiscard]] std::uint32_t largest_arguments() const noexcept {
    return record_limit(endpoint_.out.size()) - request_body;
  }

  /// Throws error when the peer cannot fetch `bytes` of arguments, which do not fit a record.
  void require_long_arguments(std::uint64_t bytes) const {
    if (!endpoint_.takes_long) refuse_long_arguments(bytes);
  }

  // ---- with the guard held ----

  /// Space for a request with `bytes` of arguments, or null when the ring is full or the peer has
  /// failed. Arguments go to the returned address, which is aligned to 16 bytes.
  [[nodiscard]] std::byte* try_reserve_request(std::uint32_t bytes) noexcept {
    const std::uint64_t limit = endpoint_.out.limit;
    std::byte* record = try_reserve(endpoint_.out, request_body + bytes);
    if (record == nullptr) return nullptr;
    if (endpoint_.out.limit != limit) [[unlikely]]
      begin_interval(request_body + bytes);
    return record + request_body;
  }

  /// A caller waits for space.
  void count_full() noexcept { ++counts_->full; }

  /// Sends the request whose arguments were written at `arguments`. `slot` may be null: no reply.
  void commit_request(std::byte* arguments, std::uint32_t bytes, handler_key key,
                      pending_call* slot, std::uint32_t extra = 0,
                      record_kind kind = record_kind::request) noexcept {
    std::byte* record = arguments - request_body;
    write_header(record, key, slot, extra);
    commit(endpoint_.out, record, request_body + bytes, kind);
    ++(slot == nullptr ? counts_->posts : counts_->calls);
    if (looks_at_next_) [[unlikely]]
      note_sent(slot, key, extra);
  }

  /// take_call() will not throw.
  [[nodiscard]] bool has_free_call() const noexcept { return free_ != nullptr; }

  /// What is often all that a call needs, at the least cost: sends a request with `bytes` of
  /// arguments, which `fill` writes to the address that it is given. The pending call, whose reply
  /// `read` will read, or nothing for a posted one, is in `slot`. False where there may be no
  /// space, or no pending call, without doing more for it.
  template <bool IsPosted, class Fill>
  [[nodiscard]] bool try_send_short(std::uint32_t bytes, handler_key key, std::uint32_t extra,
                                    reply_reader read, const Fill& fill,
                                    pending_call*& slot) noexcept {
    pending_call* const taken = IsPosted ? nullptr : free_;
    if (!IsPosted && taken == nullptr) [[unlikely]]
      return false;
    const bool is_sent =
        try_send(endpoint_.out, request_body + bytes, record_kind::request, [&](std::byte* record) {
          if constexpr (!IsPosted) {
            free_ = taken->kept_.next_free;
            taken->read_ = read;
          }
          write_header(record, key, taken, extra);
          fill(record + request_body);
        });
    slot = taken;
    // Behind the commit, which the peer waits for.
    if (is_sent) [[likely]]
      ++(IsPosted ? counts_->posts : counts_->calls);
    return is_sent;
  }

  /// The peer can be told of calls that are stopped.
  [[nodiscard]] bool takes_stops() const noexcept { return endpoint_.takes_stops; }

  /// The call that was just sent has a stoppable_prefix with this id: stop() tells the peer.
  void make_stoppable(pending_call& slot, std::uint64_t id) noexcept {
    slot.stopping_ = pending_call::stopping::possible;
    slot.kept_.stoppable_id = id;
    slot.become(completion::state::noted);
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

  /// Pending calls that there is memory for.
  [[nodiscard]] std::size_t capacity() const noexcept;
  /// Gives memory of pending calls back that were not needed since the last time, which was at
  /// least a second before `now`. pump() does so now and then while there are no replies.
  void trim(time_point now) noexcept;

  /// Pending calls that are in flight or held. Counts the others.
  [[nodiscard]] std::size_t taken() const noexcept;

  /// Pending calls that somebody holds.
  [[nodiscard]] std::size_t held() const noexcept { return taken() - abandoned_; }

  /// Ends a pending call that was taken but not sent.
  void fail_call(pending_call& slot, std::exception_ptr why) noexcept;

  /// Keeps the arguments' block of the call that was just sent until the reply comes.
  void attach_block(pending_call& slot, std::byte* block) noexcept {
    slot.request_block_ = block;
    slot.become(completion::state::noted);
  }

  /// Reads the replies that are there and marks their pending calls ready; returns how many. What
  /// is to run afterwards is left for take_due().
  std::size_t pump() noexcept;

  /// Continuations to run once the guard is released.
  [[nodiscard]] continuation_list take_due() noexcept { return std::exchange(due_, {}); }

  /// For the thread that owns the lane, without the guard: takes replies in until that of `c` is
  /// among them, for as long as a short call takes. False when that was not enough, or when there
  /// is more to do than to take them in.
  [[nodiscard]] bool spin_for(const completion& c, reply_count expected) noexcept;

  void fail(const std::exception_ptr& why) noexcept;
  /// The engine ends before the holders of some pending calls, all of which are ready. Returns how
  /// many.
  [[nodiscard]] std::size_t leave_engine() noexcept;
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  /// Its connection has ended, which says nothing about the node, or it takes no more calls. Any
  /// thread may ask.
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }
  /// Has threads look for another lane, before their next call. Any thread.
  void avoid() noexcept { is_lost_.store(true, std::memory_order_relaxed); }

  /// The peer's key for each of our handlers, once the layer above has worked it out. Written and
  /// read by the lane's users in that layer; null before.
  std::atomic<const handler_key*> keys{nullptr};
  /// The peer has our functions at the same offsets. Written before `keys`, by the same layer.
  std::atomic<bool> is_of_same_build{false};

  /// Threads' sets of lanes that have it; guarded by the engine's mutex. Zero for a lane that was
  /// opened by itself.
  std::uint32_t thread_uses = 0;

  // ---- without it ----

  /// The last request has been answered, and so have those before it, but for handlers that wait:
  /// others pass these. False behind one that wants no answer.
  [[nodiscard]] bool is_quiet() const noexcept {
    // Acquire; partner: the release store in note_ended(): what the handlers did is done.
    return (last_request_.load(std::memory_order_acquire) & answered) != 0;
  }

  /// Copies are under way that calls in order wait for. Set and read by the layer above.
  std::atomic<bool> has_transfers{false};

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
  static constexpr std::uint64_t answered = std::uint64_t{1} << 32; ///< of last_request_

  /// What holds the lane finds no space, and asks the client, which knows why.
  void after_fork_in_child() noexcept override { disconnect(endpoint_); }

  static constexpr std::uint32_t smallest_interval_bytes = 2048;
  static constexpr std::uint32_t longest_interval_bytes = 1U << 20;

  /// What stands before the arguments of a request; its reply goes to `slot`, which may be null.
  void write_header(std::byte* record, handler_key key, pending_call* slot,
                    std::uint32_t extra) noexcept {
    auto* header = new (record) request_header;
    const std::uint32_t number = slot == nullptr ? no_slot : slot->index_;
    header->record.slot = number;
    header->extra = extra;
    // Relaxed: only a thread that sends asks, about what it has sent itself. Here, because it keeps
    // the compiler from joining the stores around it in a vector register, which takes longer.
    last_request_.store(number, std::memory_order_relaxed);
    header->key = key;
    if (slot != nullptr) slot->state_.store(completion::state::pending, std::memory_order_relaxed);
  }

  [[noreturn]] void refuse_long_arguments(std::uint64_t bytes) const;
  /// The next call is to be measured, or recorded: the ring's space is given out in parts, so that
  /// a call that begins one costs more, and the others nothing. Where all are recorded, each is a
  /// part of its own.
  void begin_interval(std::uint32_t record_bytes) noexcept;
  /// The request that begin_interval() was for has been sent.
  void note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept;
  void begin_measuring(pending_call& slot) noexcept;
  void record_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept;
  void record_answered(pending_call& slot) noexcept;
  /// Tells the peer which lane our events mean.
  [[nodiscard]] bool send_lane_name() noexcept;
  void end_measuring() noexcept;
  void count_answers(std::size_t taken) noexcept;
  [[nodiscard]] bool moves_bytes() const noexcept {
    // Acquire; partner: as in has_reply().
    return endpoint_.driver != nullptr && !is_over_.load(std::memory_order_acquire);
  }
  void grow();
  void push_free(pending_call& slot) noexcept {
    slot.kept_.next_free = free_;
    free_ = &slot;
  }
  /// `index` is less than calls_.
  [[nodiscard]] pending_call& call_at(std::uint32_t index) noexcept;
  void note_ended() noexcept;
  [[nodiscard]] bool is_given_back(std::size_t chunk) const noexcept {
    return chunks_[chunk] == given_back_;
  }
  template <class F>
  void for_each_call(const F& f) noexcept;
  void take_reply(const std::byte* record, std::uint32_t bytes) noexcept;
  [[nodiscard]] pending_call* simple_call_of(const std::byte* reply) noexcept;
  void read_reply(pending_call& slot, const std::byte* record, std::uint32_t bytes) noexcept;
  /// Reads the reply of a call that is measured or recorded, if there is nothing else to do at its
  /// end; else false.
  [[nodiscard]] bool read_watched_reply(const std::byte* record, std::uint32_t bytes) noexcept;
  void note_idle() noexcept;
  void take_other_reply(const record_view& record) noexcept;
  /// The peer can no longer be understood, or reached.
  void lose(record_kind why) noexcept;
  void lose_refused(std::string_view why) noexcept;
  void read_rendezvous(pending_call& slot, const record_view& record);
  void finish(pending_call& slot) noexcept;
  void let_go_of(pending_call& slot) noexcept;
  void send_releases() noexcept;

  client* owner_;
  endpoint endpoint_;
  caller_counters* counts_; ///< in counters_
  doorbell* wakes_;
  pending_call* free_ = nullptr;
  std::size_t abandoned_ = 0; ///< in flight and held by nobody
  continuation_list due_;
  std::atomic<std::uint64_t> seen_{0}; ///< where the next reply will be
  std::exception_ptr failure_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_over_{false}; ///< fail() has ended all calls
  std::uint32_t calls_ = 0;          ///< numbers of pending calls are below it
  /// Number of its pending call, if it has one, and `answered`. In one word: one store.
  std::atomic<std::uint64_t> last_request_{no_slot | answered};
  /// By number of their pending calls; owned, but for those that were given back.
  std::vector<call_chunk*> chunks_;
  call_chunk* given_back_ = nullptr; ///< what stands for these; null as long as there are none
  std::uint32_t idle_pumps_ = 0;
  std::uint32_t stray_replies_ = 0;
  time_point next_trim_{};
  std::vector<std::uint64_t> releases_; ///< peer's blocks that we are done with
  counter_segment* counters_;           ///< lives as long
  trace::recorder* recorder_;           ///< null: nothing is recorded; never destroyed
  bool looks_at_next_ = false;          ///< see begin_interval()
  bool measures_next_ = false;
  bool records_next_ = false;
  bool has_sent_name_ = false;
  std::uint32_t lane_number_ = 0; ///< in events
  std::uint64_t measured_at_ = 0; ///< position of the request that was measured last
  std::uint64_t reserved_at_ = 0; ///< position of the request that is recorded next
  std::uint64_t reserved_when_ = 0;
  /// Of requests between two calls that are measured: some 64 short ones, and more where there are
  /// many.
  std::uint32_t interval_bytes_ = smallest_interval_bytes;
  const pending_call* measured_ = nullptr; ///< in flight, since measured_since_
  time_point measured_since_{};
  alignas(line_bytes) biased_lock guard_; ///< what its owner uses is one line
};

} // namespace farcall::am
