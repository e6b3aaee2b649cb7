// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/staged_state.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

/// Lanes whose two rings are not shared with the peer. Their bytes are *staged*, that is, copied
/// through rings in our own memory. The lane drains the user's outbox into its link (a connection
/// or a device), and fills the user's inbox from the link. See docs/staged-lane.md.
namespace farcall {

/// The lane's view of the ring to which the user commits records. It finds committed records, and
/// gives their space back when the link no longer needs them. One thread uses it at a time, except
/// for members whose comment says "any thread".
class staged_outbox {
 public:
  /// Clears `ring` and begins to use it for a new lane.
  void reset(std::byte* ring, std::uint32_t bytes) noexcept;
  /// Attaches the user's outbox, through which the user commits records.
  void attach(outbox& user) const noexcept;

  /// Any thread.
  [[nodiscard]] send_state state() const noexcept { return state_.now(); }
  /// Applies an event to the sending state. Returns true if the state has changed. Any thread may
  /// call this.
  bool on(send_event what) noexcept { return state_.on(what); }

  /// Returns the next committed record in place, or an empty view if there is none; skips pads.
  /// Only for links that carry whole records. If the next entry is the mark by which the user has
  /// refused to send more, closes the sending direction and returns an empty view.
  [[nodiscard]] record_view next() noexcept;
  /// Advances past the record that next() has returned. The record's space stays taken until
  /// give_credit().
  void take(const record_view& record) noexcept { release(cursor_, record); }

  /// Takes all committed bytes, and returns the position behind them. The taken bytes include pads,
  /// and the mark that a user writes to refuse further sending. Only for links that carry bytes.
  [[nodiscard]] std::uint64_t take_all() noexcept {
    const std::uint32_t word = skip_committed(cursor_);
    seen_.store(cursor_.tail, std::memory_order_relaxed);
    if (word == 0) [[likely]]
      return cursor_.tail;
    // A word other than 0 is the mark that refuse() has written. The mark has no length field and
    // takes one granule, behind which no word follows.
    on(send_event::close);
    return cursor_.tail + record_alignment;
  }

  /// Returns the position behind the records that were taken.
  [[nodiscard]] std::uint64_t taken() const noexcept { return cursor_.tail; }
  [[nodiscard]] std::byte* base() const noexcept { return cursor_.base; }
  [[nodiscard]] std::uint32_t size() const noexcept { return cursor_.size; }

  /// Lets the user reuse the ring's bytes below `position`, because the link no longer needs them.
  void give_credit(std::uint64_t position) noexcept {
    // Release, paired with the acquire load in reserve_slow(), so that our reads of the records
    // happen before the user overwrites them.
    consumed_.store(position & ~std::uint64_t{record_alignment - 1}, std::memory_order_release);
    seen_.store(cursor_.tail, std::memory_order_relaxed);
  }

  /// True if the user has committed records that were not taken yet. Any thread may call this. The
  /// result is a hint, because it may change at any time.
  [[nodiscard]] bool has_commits() const noexcept {
    return has_record(cursor_, seen_.load(std::memory_order_relaxed));
  }
  /// True if the link still needs records that were taken. Any thread may call this. The result is
  /// a hint, because it may change at any time.
  [[nodiscard]] bool is_held() const noexcept {
    return consumed_.load(std::memory_order_relaxed) != seen_.load(std::memory_order_relaxed);
  }

 private:
  /// Cursor by which the lane reads the records that the user commits. The cursor publishes its
  /// position in `read_`, which no other code reads. The user gets the position `consumed_`
  /// instead, because only the link knows when a record is no longer needed.
  inbox cursor_;
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> seen_{0}; ///< taken(), for other threads
  staged_state<send_state, send_event> state_;
  alignas(line_bytes) std::atomic<std::uint64_t> consumed_{0};
};

/// The lane's view of the ring from which the user reads: writes the bytes that the link receives.
/// One thread uses it at a time, except for members whose comment says "any thread".
class staged_inbox {
 public:
  /// Clears `ring` and begins to use it for a new lane, whose user sleeps on the doorbell `wakes`.
  void reset(std::byte* ring, std::uint32_t bytes, doorbell& wakes) noexcept;
  /// Attaches the user's inbox, through which the user reads records.
  void attach(inbox& user) noexcept;

  /// Any thread.
  [[nodiscard]] receive_state state() const noexcept { return state_.now(); }
  /// Applies an event to the receiving state. Returns true if the state has changed. Any thread may
  /// call this.
  bool on(receive_event what) noexcept { return state_.on(what); }

  /// Returns space for one record. If the user has not read enough for that, returns null and
  /// enters the state `full`. A later call that succeeds leaves this state. Only for links that
  /// deliver whole records. commit() makes the record visible to the user and wakes the user.
  [[nodiscard]] std::byte* reserve(std::uint32_t bytes) noexcept;
  void commit(std::byte* record, std::uint32_t bytes, record_kind kind) noexcept {
    farcall::commit(writer_, record, bytes, kind);
  }

  /// Returns the position up to which the user has read. Links that deliver bytes compute the free
  /// space of the ring from it (memory/record_assembler.hpp).
  [[nodiscard]] std::uint64_t consumed() const noexcept {
    // Acquire, paired with the release store in the function release(), so that the user's reads of
    // the records happen before the lane overwrites them.
    return consumed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::byte* base() const noexcept { return writer_.base; }
  [[nodiscard]] std::uint64_t size() const noexcept { return writer_.size(); }

  /// Returns the doorbell on which the user sleeps. Any thread may call this.
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  /// Wakes the user, if it sleeps, for a reason other than a new record. Any thread may call this.
  void wake() const noexcept { notify_if_armed(*wakes_); }

 private:
  outbox writer_;
  doorbell* wakes_ = nullptr;
  staged_state<receive_state, receive_event> state_;
  alignas(line_bytes) std::atomic<std::uint64_t> consumed_{0};
};

/// Role of an end of a lane: only the opener may close the lane.
enum class lane_role : std::uint8_t { opener, acceptor };

/// Common part of the ends of all staged lanes. The derived class moves the bytes of each direction
/// while it holds the lock of this direction.
class staged_lane : public lane_driver {
 public:
  staged_lane(const staged_lane&) = delete;
  staged_lane& operator=(const staged_lane&) = delete;

  /// Stores the user's ends of both rings in `end`, with this object as the driver.
  void fill(endpoint& end) noexcept;

 protected:
  /// Function that is called after each commit of the user, with the lane as its argument.
  using commit_hook = void (*)(void* lane) noexcept;

  explicit staged_lane(commit_hook committed) noexcept : committed_(committed) {}
  ~staged_lane() = default;

  /// Clears the rings and starts the lane for a user that sleeps on the doorbell `wakes`. The
  /// caller holds both locks.
  void begin(std::byte* out_ring, std::byte* in_ring, std::uint32_t ring_bytes, lane_role role,
             doorbell& wakes) noexcept;

  [[nodiscard]] lane_role role() const noexcept { return role_; }

  mutable std::mutex send_mutex_; ///< taken before receive_mutex_ if a thread needs both
  staged_outbox out_;
  std::mutex receive_mutex_;
  staged_inbox in_;

 private:
  commit_hook committed_;
  lane_role role_ = lane_role::opener;
};

} // namespace farcall
