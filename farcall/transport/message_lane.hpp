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

/// One end of a lane over a network of messages. What its user has committed goes out of the ring,
/// as much as one message takes, and what comes in goes into the other ring as it stood in the
/// peer's: a position in the stream is a position in the ring, which has one size on both ends. The
/// sender knows how far the peer's user has read and never has more under way than the peer's ring
/// takes.
///
/// The link's lock stands for both of the staged lane's. Members take it where they say so; the
/// others want it taken.
class message_lane final : public staged_lane {
 public:
  /// `wakes` is the doorbell of the lane's user here.
  message_lane(message_link& by, message_peer& to, node_id self, lane_number number,
               std::uint32_t ring_bytes, doorbell& wakes, lane_role role);

  /// For their user. Try the lock.
  void progress() noexcept override;
  void arm() noexcept override;

  /// Nothing more comes. Any thread, without the lock.
  [[nodiscard]] bool has_ended() const noexcept { return is_over(in_.state()); }

  [[nodiscard]] message_peer& to() const noexcept { return *to_; }
  [[nodiscard]] lane_number number() const noexcept { return number_; }
  [[nodiscard]] lane_role which_end() const noexcept { return role(); }

  /// A message for this lane. Calls nothing of the network's.
  void take_bytes(const lane_header& h, std::span<const std::byte> bytes) noexcept;
  void take_credit(const lane_header& h) noexcept;
  void take_close(const lane_header& h) noexcept;

  /// Goes on with what messages, completions and the user have made possible.
  void serve() noexcept;
  /// Sends what its user had put off.
  void send_deferred() noexcept {
    if (deferred_.load(std::memory_order_relaxed)) send();
  }

  /// The user is done with the rings: what was committed is still sent, what comes is dropped.
  void finish() noexcept;
  /// The same at once. The rings stay.
  void cut() noexcept;
  /// The link is lost. The acceptor's user is told at once; true when the opener's has to be, by
  /// declare_lost().
  [[nodiscard]] bool lose() noexcept;
  void declare_lost() noexcept;

  /// After message_link::outcome::under_way: the message has gone, or has not.
  void was_sent(bool is_good) noexcept;

  /// Everything that was committed has gone, and the network needs the ring no longer.
  [[nodiscard]] bool is_drained() noexcept;
  /// The network still reads from the ring, so that the lane must stay.
  [[nodiscard]] bool is_under_way() const noexcept { return is_under_way_; }

 private:
  static void committed(void* lane) noexcept;
  void defer() noexcept;
  void send() noexcept;
  /// False: nothing more can be sent now.
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
  lane_number number_;        ///< as we send it
  line_aligned_memory rings_; ///< out, then in

  // ---- sending
  lane_header header_;          ///< of the message that is under way
  std::uint64_t sent_ = 0;      ///< up to here the ring's went to the link
  std::uint64_t peer_read_ = 0; ///< how far the peer's user has read, as far as we know
  bool is_under_way_ = false;   ///< the network still reads from the ring
  /// Its user has polled since the last send: what it commits next, somebody waits for.
  std::atomic<bool> has_polled_{true};
  /// Before that commits are put off; 0: nobody has looked at the clock since the last send.
  std::atomic<time_point::rep> send_again_{0};
  /// Something was put off, for whoever polls next.
  std::atomic<bool> deferred_{false};

  // ---- receiving
  record_assembler assembler_;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0; ///< what the peer knows of how far our user has read
  std::uint64_t end_ = no_end;
  /// What came before its turn, by position: networks keep the order of messages to a peer, but UCX
  /// says nothing of those that it takes apart.
  std::map<std::uint64_t, std::vector<std::byte>> early_;
  std::uint64_t early_bytes_ = 0;

  static constexpr std::uint64_t no_end = ~std::uint64_t{0};
};

} // namespace farcall
