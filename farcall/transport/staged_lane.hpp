#pragma once

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/staged_state.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

/// Lanes whose two rings are not shared with the peer. Bytes are *staged*: the user's outbox is a
/// ring in our memory that the lane drains into its link (a connection, a device), and the user's
/// inbox is one that the lane fills from it. docs/staged-lane.md tells how.
namespace farcall {

/// Where our user commits, seen from behind: finds what was committed, and gives the space back
/// when the link has it. Not for several threads at once, except where said.
class staged_outbox {
 public:
  /// Begins anew on `ring`, which is cleared.
  void reset(std::byte* ring, std::uint32_t bytes) noexcept;
  /// The end that the user commits to.
  void attach(outbox& user) const noexcept;

  /// Any thread.
  [[nodiscard]] send_state state() const noexcept { return state_.now(); }
  /// Any thread. True when the state has changed.
  bool on(send_event what) noexcept { return state_.on(what); }

  /// For links that carry records: the next one that was committed, in place, or an empty view.
  /// Pads are passed over. Where the user has refused to send more there is none, and the lane
  /// closes.
  [[nodiscard]] record_view next() noexcept;
  /// The record that next() has found is dealt with. Its space stays taken until give_credit().
  void take(const record_view& record) noexcept { release(cursor_, record); }

  /// For links that carry bytes: takes everything that was committed and returns the position
  /// behind it, pads and the mark of a refusal included.
  [[nodiscard]] std::uint64_t take_all() noexcept {
    const std::uint32_t word = skip_committed(cursor_);
    seen_.store(cursor_.tail, std::memory_order_relaxed);
    if (word == 0) [[likely]]
      return cursor_.tail;
    // The mark of refuse(): it has no length, and nothing comes behind it.
    on(send_event::close);
    return cursor_.tail + record_alignment;
  }

  /// Position behind what was taken.
  [[nodiscard]] std::uint64_t taken() const noexcept { return cursor_.tail; }
  [[nodiscard]] std::byte* base() const noexcept { return cursor_.base; }
  [[nodiscard]] std::uint32_t size() const noexcept { return cursor_.size; }

  /// The link needs nothing below `position` any more: the user may write there again.
  void give_credit(std::uint64_t position) noexcept {
    // Release: our reads of the records happen before they are overwritten. Partner: the acquire
    // load in reserve_slow().
    consumed_.store(position & ~std::uint64_t{record_alignment - 1}, std::memory_order_release);
    seen_.store(cursor_.tail, std::memory_order_relaxed);
  }

  /// Something was committed and not taken yet. Any thread; a hint.
  [[nodiscard]] bool has_commits() const noexcept {
    return has_record(cursor_, seen_.load(std::memory_order_relaxed));
  }
  /// The link still needs something that was taken. Any thread; a hint.
  [[nodiscard]] bool is_held() const noexcept {
    return consumed_.load(std::memory_order_relaxed) != seen_.load(std::memory_order_relaxed);
  }

 private:
  /// Reads behind the user. What it tells its sender goes into `read_`, which nobody reads: only
  /// the link knows when a record is no longer needed.
  inbox cursor_;
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> seen_{0}; ///< taken(), for other threads
  staged_state<send_state, send_event> state_;
  alignas(line_bytes) std::atomic<std::uint64_t> consumed_{0};
};

/// What our user reads, seen from behind: takes in what the link brings. Not for several threads at
/// once, except where said.
class staged_inbox {
 public:
  /// Begins anew on `ring`, which is cleared, for a user who sleeps on `wakes`.
  void reset(std::byte* ring, std::uint32_t bytes, doorbell& wakes) noexcept;
  /// The end that the user reads.
  void attach(inbox& user) noexcept;

  /// Any thread.
  [[nodiscard]] receive_state state() const noexcept { return state_.now(); }
  /// Any thread. True when the state has changed.
  bool on(receive_event what) noexcept { return state_.on(what); }

  /// For links that bring whole records: space for one, or null, and the state is `full`, until the
  /// user has read some. commit() shows it to the user, and wakes it.
  [[nodiscard]] std::byte* reserve(std::uint32_t bytes) noexcept;
  void commit(std::byte* record, std::uint32_t bytes, record_kind kind) noexcept {
    farcall::commit(writer_, record, bytes, kind);
  }

  /// For links that bring bytes (memory/record_assembler.hpp): up to where the user has read.
  [[nodiscard]] std::uint64_t consumed() const noexcept {
    // Acquire; partner: the release store in release().
    return consumed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::byte* base() const noexcept { return writer_.base; }
  [[nodiscard]] std::uint64_t size() const noexcept { return writer_.size(); }

  /// The doorbell that the user sleeps on. Any thread.
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  /// Wakes the user, if it sleeps, for what is no record. Any thread.
  void wake() const noexcept { notify_if_armed(*wakes_); }

 private:
  outbox writer_;
  doorbell* wakes_ = nullptr;
  staged_state<receive_state, receive_event> state_;
  alignas(line_bytes) std::atomic<std::uint64_t> consumed_{0};
};

/// Which end of a lane this is: only an opener may close it.
enum class lane_role : std::uint8_t { opener, acceptor };

/// One end of a staged lane: what all of them have in common. Whoever derives from it moves the
/// bytes, each direction under its lock.
class staged_lane : public lane_driver {
 public:
  staged_lane(const staged_lane&) = delete;
  staged_lane& operator=(const staged_lane&) = delete;

  /// Both ends of the rings, and the driver, for the lane's user.
  void fill(endpoint& end) noexcept;

 protected:
  /// Called after each commit, with the lane.
  using commit_hook = void (*)(void* lane) noexcept;

  explicit staged_lane(commit_hook committed) noexcept : committed_(committed) {}
  ~staged_lane() = default;

  /// A user has the lane from now on, who sleeps on `wakes`. The rings are cleared. With both
  /// locks.
  void begin(std::byte* out_ring, std::byte* in_ring, std::uint32_t ring_bytes, lane_role role,
             doorbell& wakes) noexcept;

  [[nodiscard]] lane_role role() const noexcept { return role_; }

  mutable std::mutex send_mutex_; ///< taken before the other where both are
  staged_outbox out_;
  std::mutex receive_mutex_;
  staged_inbox in_;

 private:
  commit_hook committed_;
  lane_role role_ = lane_role::opener;
};

} // namespace farcall
