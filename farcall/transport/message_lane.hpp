// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/transport/lane_messages.hpp>
#include <farcall/transport/message_link.hpp>
#include <farcall/transport/staged_lane.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace farcall {

/// An end of a lane over a message network such as UCX or MPI. Bytes that the user commits are sent
/// from the outbox's ring, in parts of at most one message. Received bytes are put into the inbox's
/// ring at the offset that they had in the peer's ring. Both rings have the same size, so that a
/// position in the byte stream determines this offset. The sender knows how far the peer's user has
/// read, and never has more bytes in flight than the peer's ring holds.
///
/// This class uses the link's lock in place of the two locks of a staged lane. A caller of a member
/// holds the link's lock, except if the member's comment says that it is called without the lock.
class message_lane final : public staged_lane {
 public:
  /// `wakes` is the doorbell on which the lane's user on this node sleeps.
  message_lane(message_link& by, message_peer& to, node_id self, lane_number number,
               std::uint32_t ring_bytes, doorbell& wakes, lane_role role);

  /// Called by the lane's user, without the lock. Both functions try to take the lock. If another
  /// thread holds the lock, they leave the work to other threads.
  void progress() noexcept override;
  void arm() noexcept override;

  /// True if no more bytes arrive on this lane. Any thread may call this, without the lock.
  [[nodiscard]] bool has_ended() const noexcept { return is_over(in_.state()); }

  [[nodiscard]] message_peer& to() const noexcept { return *to_; }
  [[nodiscard]] lane_number number() const noexcept { return number_; }
  [[nodiscard]] lane_role which_end() const noexcept { return role(); }

  /// Functions that handle a received message of this lane, without any call to the network.
  void take_bytes(const lane_header& h, std::span<const std::byte> bytes) noexcept;
  void take_credit(const lane_header& h) noexcept;
  void take_close(const lane_header& h) noexcept;

  /// Called when messages have arrived, when sends have completed, or when the user has read or
  /// committed records. Tells the peer how far the user has read, and sends bytes, as far as either
  /// is possible and due.
  void serve() noexcept;
  /// Sends bytes whose sending was deferred.
  void send_deferred() noexcept {
    if (deferred_.load(std::memory_order_relaxed)) send();
  }

  /// Called when the user no longer uses the rings: bytes that it has committed are still sent, and
  /// bytes that arrive are dropped.
  void finish() noexcept;
  /// Ends both directions of the lane at once. The rings stay allocated.
  void cut() noexcept;
  /// Called when the link to the peer is lost. Ends both directions. On the acceptor's end, wakes
  /// the user at once and returns false. On the opener's end, returns true if the caller has to
  /// report the loss to the user later, by declare_lost().
  [[nodiscard]] bool lose() noexcept;
  void declare_lost() noexcept;

  /// Called when a message was sent for which message_link::send() has returned `under_way`.
  /// `is_good` is false if the send has failed.
  void was_sent(bool is_good) noexcept;

  /// Tries to send the committed bytes. Returns true if none is left to send, and the network no
  /// longer needs the ring.
  [[nodiscard]] bool is_drained() noexcept;
  /// True if the network still reads from the ring, so that the lane must stay.
  [[nodiscard]] bool is_under_way() const noexcept { return is_under_way_; }

 private:
  static void committed(void* lane) noexcept;
  void defer() noexcept;
  void send() noexcept;
  /// Sends the next `bytes` bytes. Returns false if no more can be sent now.
  [[nodiscard]] bool send_part(std::uint64_t bytes) noexcept;
  void return_credit() noexcept;
  [[nodiscard]] lane_header header(std::uint64_t position) noexcept;
  void put(std::span<const std::byte> bytes) noexcept;
  void corrupt() noexcept;
  void end_if_complete() noexcept;
  [[nodiscard]] bool is_receiving() const noexcept;

  message_link* link_;
  message_peer* to_;
  node_id self_;
  lane_number number_;        ///< number of this lane, as sent in messages
  line_aligned_memory rings_; ///< outbox's ring, then inbox's

  // ---- sending
  lane_header header_;          ///< header of the message in flight
  std::uint64_t sent_ = 0;      ///< position up to which bytes were given to the link for sending
  std::uint64_t peer_read_ = 0; ///< position up to which the peer's user has read, as last reported
                                ///< by the peer
  bool is_under_way_ = false;   ///< true while the network still reads from the ring
  /// True if the user has polled since the last send. If so, the user's next commit is sent at
  /// once, because the user may be waiting for the reply to it.
  std::atomic<bool> has_polled_{true};
  /// Point in time until which commits are deferred. 0 if no commit since the last send has set it.
  std::atomic<time_point::rep> send_again_{0};
  /// True if bytes were committed whose send was deferred. The next poll sends them.
  std::atomic<bool> deferred_{false};

  // ---- receiving
  record_assembler assembler_;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0; ///< position up to which our user has read, as last reported to the peer
  std::uint64_t end_ = no_end;
  /// Bytes that have arrived before bytes that precede them, by their position in the stream.
  /// Networks keep the order of messages to a peer, except UCX, which promises no order for
  /// messages that it splits.
  std::map<std::uint64_t, std::vector<std::byte>> early_;
  std::uint64_t early_bytes_ = 0;

  static constexpr std::uint64_t no_end = ~std::uint64_t{0};
};

} // namespace farcall
