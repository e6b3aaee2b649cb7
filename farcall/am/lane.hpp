#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/message.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/bell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/channel.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace farcall::am {

class call_slot;

/// An answer as it lies in memory. Bytes are valid during the call that gets it only, and are
/// aligned to 8 bytes for short answers, to 16 for long ones.
struct answer {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// Reads an answer into the slot's storage, or, with `destroy` set, destroys what was read. Runs
/// with the lane's guard held: must not call farcall. May throw when reading.
enum class slot_action : bool { read, destroy };
using answer_reader = void (*)(call_slot& slot, slot_action action, const answer& what);

/// Size of a slot's inline storage for a result, in bytes.
inline constexpr std::size_t slot_storage = 48;

class alignas(line_bytes) call_slot : public completion {
 public:
  call_slot(client& owner, lane& l, biased_lock& guard, std::uint32_t index) noexcept
      : completion(&owner, &l, guard), index_(index) {}
  ~call_slot() = default;

  [[nodiscard]] std::byte* storage() noexcept { return storage_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class lane;

  void destroy_result() noexcept { read_(*this, slot_action::destroy, {}); }

  std::uint32_t index_;
  bool in_flight_ = false;
  answer_reader read_ = nullptr;
  std::byte* request_block_ = nullptr; ///< arguments in our heap, until the answer comes
  call_slot* next_free_ = nullptr;
  alignas(16) std::byte storage_[slot_storage];
};

struct slot_chunk;

/// Opening end of a lane: sends requests to one worker of one node and takes its answers. Used
/// under `guard`, which costs the thread that owns the lane next to nothing.
class lane {
 public:
  lane(client& owner, const channel& c, bell& wakes);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  [[nodiscard]] node_id peer() const noexcept { return channel_.peer; }
  [[nodiscard]] client& owner() const noexcept { return *owner_; }
  [[nodiscard]] biased_lock& guard() noexcept { return guard_; }
  [[nodiscard]] bell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] const channel& ends() const noexcept { return channel_; }

  /// Most bytes of arguments that fit a record.
  [[nodiscard]] std::uint32_t largest_arguments() const noexcept {
    return record_limit(channel_.out.size) - request_body;
  }

  /// Throws error when the peer cannot fetch `bytes` of arguments, which do not fit a record.
  void require_long_arguments(std::uint64_t bytes) const {
    if (!channel_.takes_long) refuse_long_arguments(bytes);
  }

  // ---- with the guard held ----

  /// Room for a request with `bytes` of arguments, or null when the ring is full or the peer has
  /// failed. Arguments go to the returned address, which is aligned to 16 bytes.
  [[nodiscard]] std::byte* try_reserve_request(std::uint32_t bytes) noexcept {
    std::byte* record = try_reserve(channel_.out, request_body + bytes);
    return record == nullptr ? nullptr : record + request_body;
  }

  /// Sends the request whose arguments were written at `arguments`. `slot` may be null: no answer.
  void commit_request(std::byte* arguments, std::uint32_t bytes, handler_key key, call_slot* slot,
                      std::uint32_t extra = 0, record_kind kind = record_kind::request) noexcept {
    std::byte* record = arguments - request_body;
    auto* header = new (record) request_header;
    header->record.slot = slot == nullptr ? no_slot : slot->index_;
    header->key = key;
    header->extra = extra;
    if (slot != nullptr) slot->in_flight_ = true;
    commit(channel_.out, record, request_body + bytes, kind);
  }

  /// A free slot whose answer will be read by `read`. Throws std::bad_alloc.
  [[nodiscard]] call_slot& take_slot(answer_reader read) {
    if (free_ == nullptr) [[unlikely]]
      grow();
    call_slot& slot = *free_;
    free_ = slot.next_free_;
    slot.read_ = read;
    slot.abandoned_ = false;
    slot.ready_.store(false, std::memory_order_relaxed);
    ++taken_;
    return slot;
  }

  /// A slot that was taken but not sent, or whose answer has been dealt with.
  void return_slot(call_slot& slot) noexcept {
    if (slot.failure_) [[unlikely]]
      slot.failure_ = nullptr;
    slot.next_free_ = free_;
    free_ = &slot;
    --taken_;
  }

  /// Slots that are in flight or held.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }

  /// Ends a slot that was taken but not sent.
  void fail_slot(call_slot& slot, std::exception_ptr why) noexcept;

  /// Keeps the arguments' block until the answer comes.
  void attach_block(call_slot& slot, std::byte* block) noexcept { slot.request_block_ = block; }

  /// Reads the answers that are there and marks their slots ready; returns how many. What is to
  /// run afterwards is left for take_due().
  std::size_t pump() noexcept;

  /// Continuations to run once the guard is released, as a list.
  [[nodiscard]] continuation* take_due() noexcept {
    continuation* due = due_;
    due_ = nullptr;
    return due;
  }

  void fail(const std::exception_ptr& why) noexcept;
  /// The engine ends before the holders of some slots, all of which are ready. Returns how many.
  [[nodiscard]] std::size_t leave_engine() noexcept;
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  /// Its connection has ended, which says nothing about the node. Any thread may ask.
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }

  /// The peer's key for each of our handlers, once the layer above has worked it out. Written and
  /// read by the lane's users in that layer; null before.
  std::atomic<const handler_key*> keys{nullptr};

  // ---- without it ----

  /// The holder of a ready slot has taken or destroyed the result.
  void free_slot(call_slot& slot) noexcept {
    guard_.lock();
    return_slot(slot);
    guard_.unlock();
  }

  /// The holder of a slot lets go of it, ready or not; a late answer is read and dropped.
  void abandon(call_slot& slot) noexcept;

  /// Moves bytes where they do not move by themselves, unless there are answers to take anyway.
  void progress() noexcept {
    if (channel_.carrier != nullptr && !has_answer()) channel_.carrier->progress();
  }
  /// Before a sleep on the lane's bell; see carrier::watch().
  void watch() noexcept {
    if (channel_.carrier != nullptr) channel_.carrier->watch();
  }

  /// True when pump() would find something. Any thread may ask.
  [[nodiscard]] bool has_answer() const noexcept {
    return has_record(channel_.in, seen_.load(std::memory_order_relaxed));
  }

  /// Runs a list of continuations.
  static void run(continuation* due) noexcept;

 private:
  [[noreturn]] void refuse_long_arguments(std::uint64_t bytes) const;
  void grow();
  [[nodiscard]] call_slot* find(std::uint32_t index) noexcept;
  void take_answer(const record_view& record) noexcept;
  void read_long(call_slot& slot, const record_view& record);
  void finish(call_slot& slot) noexcept;
  void send_releases() noexcept;

  client* owner_;
  channel channel_;
  bell* wakes_;
  call_slot* free_ = nullptr;
  std::size_t taken_ = 0;
  continuation* due_ = nullptr;
  std::atomic<std::uint64_t> seen_{0}; ///< where the next answer will be
  std::exception_ptr failure_;
  std::atomic<bool> is_lost_{false};
  std::vector<slot_chunk*> chunks_;     ///< owned
  std::vector<std::uint64_t> releases_; ///< peer's blocks that we are done with
  biased_lock guard_;
};

} // namespace farcall::am
