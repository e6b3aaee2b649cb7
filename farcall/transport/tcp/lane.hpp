// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/transport/staged_lane.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>
#include <farcall/transport/tcp/deferral_sweep.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farcall::tcp {

/// End of a lane that uses a stream connection. Committed bytes are sent from the outgoing ring as
/// they are. Received bytes are stored in the incoming ring at the offset that they had in the
/// peer's outgoing ring. This is possible because both rings have the same size, so that a position
/// in the stream is a position in the ring. While the incoming ring is full, the socket is not
/// read, so that the system's flow control limits the lane.
///
/// The lane's user moves bytes between rings and socket while it polls. The event loop moves them
/// while the user sleeps, or if no bytes have arrived for a while.
class stream_endpoint final : public staged_lane,
                              public event_handler,
                              public revocable,
                              public checked_end,
                              public std::enable_shared_from_this<stream_endpoint> {
 public:
  /// Function that makes the peer refuse further bytes of the lane's connection. After the peer has
  /// confirmed this, the function calls `refused` once on the loop's thread. It must not block.
  using ender = std::function<void(std::function<void()> refused)>;

  /// `wakes` is the doorbell on which the lane's user on this node sleeps. If the lane defers
  /// sending or closing, `sweep` continues it later. An opener treats each end of the connection as
  /// a loss. An acceptor treats an orderly end between two records as the opener's close, and any
  /// other end as a loss.
  stream_endpoint(event_loop& loop, counted_ptr<deferral_sweep> sweep, std::uint32_t ring_bytes,
                  doorbell& wakes, lane_role role);
  ~stream_endpoint() override;

  /// Sets the function that is called if the connection of an opener's lane is lost. The function
  /// makes the peer refuse the sent bytes that have not arrived, before the lane's user is told of
  /// the loss. Called before attach().
  void on_loss(ender end) { end_ = std::move(end); }

  /// Ends an acceptor's lane, because its opener has given it up. Requests in the ring that the
  /// user has not begun to read are discarded, too.
  void revoke() noexcept override;

  /// Attaches the connection to the lane. Sends `first` over it, and then the bytes that the user
  /// has committed before. Called once, on the loop's thread.
  void attach(std::unique_ptr<stream> connection, std::span<const std::byte> first);
  /// Gives up the lane, because no connection could be made, for the reason `why`.
  void give_up(const std::string& why);
  /// Attaches the connection; if it is null, gives up the lane for the reason `why`. Does nothing
  /// if the lane already has a connection, for instance because the peer has made one in the
  /// meantime.
  void attach_or_give_up(std::unique_ptr<stream> connection, std::span<const std::byte> first,
                         const std::string& why);
  /// True if a connection was attached to the lane, even if the connection has ended since. Called
  /// on the loop's thread.
  [[nodiscard]] bool is_attached() const noexcept { return link() != nullptr; }
  /// Gives up the lane for the reason `why` if no connection was attached yet and the lane has not
  /// ended. Called on the loop's thread.
  void give_up_if_late(const std::string& why) {
    if (link() == nullptr && !has_ended()) give_up(why);
  }

  void progress() noexcept override;
  void arm() noexcept override;
  void on_event(std::uint32_t events) noexcept override;

  /// Sends deferred commits.
  void send_deferred() noexcept;

  /// True if no more bytes arrive, because the connection is lost, or because the peer has closed
  /// the lane and all its bytes are in the ring.
  [[nodiscard]] bool has_ended() const noexcept { return is_over(in_.state()); }

  /// True if the bytes in the ring may be discarded: the user has refused to serve more requests
  /// and the peer was told, or the opener has given up the lane.
  [[nodiscard]] bool has_refused() const noexcept {
    // Acquire, paired with the release stores in leave() and revoke(), so that the caller sees
    // everything that happened before the refusal.
    return has_refused_.load(std::memory_order_acquire);
  }

  /// Called when the lane's user no longer uses the rings. Bytes that the user has committed are
  /// still sent. Bytes that arrive later are dropped.
  void finish() noexcept;
  /// True if the peer has not closed its end yet. After finish(), the owner keeps the socket open
  /// as long as this is true. Closing the socket earlier, or with unread bytes, might lose bytes
  /// that this end has sent.
  [[nodiscard]] bool is_lingering() const noexcept { return !has_ended(); }
  /// True if some committed bytes have not been written to the socket yet.
  [[nodiscard]] bool has_unsent() noexcept;
  [[nodiscard]] bool is_open() const noexcept override { return is_attached() && !has_ended(); }
  [[nodiscard]] stream_position position() noexcept override;
  /// Receives the bytes that have arrived, no matter what the lane's user is doing.
  void take_in() noexcept override {
    if (is_attached()) on_event(0);
  }
  void end_connection() noexcept override;
  /// Gives up the connection at once, and closes its descriptor soon after. The rings stay.
  void cut() noexcept;
  /// Cuts the lane because its peer counts as gone. Discards the sent bytes that have not arrived
  /// at the peer.
  void abort() noexcept;

 private:
  static void committed(void* lane) noexcept;
  /// True if no deferral is in effect, so that a commit is sent at once.
  [[nodiscard]] bool is_due() const noexcept {
    return clock::now().time_since_epoch().count() >= send_again_.load(std::memory_order_relaxed);
  }
  void flush() noexcept;
  void flush_locked() noexcept;
  void note_sent(std::uint64_t bytes) noexcept;
  void settle(stream& to) noexcept;
  void leave() noexcept;
  void receive_locked() noexcept;
  void fill_ring(stream& from) noexcept;
  void drop_received(stream& from) noexcept;
  void note_miss() noexcept;
  void lose() noexcept;
  void drop_undelivered() noexcept;
  void await_loss() noexcept;
  void declare_lost() noexcept;
  void arm_socket() noexcept;
  void close_socket() noexcept;

  /// Returns the connection, or null if none was attached yet.
  [[nodiscard]] stream* link() const noexcept { return link_.load(std::memory_order_seq_cst); }
  [[nodiscard]] bool is_established() const noexcept;

  event_loop* loop_;
  counted_ptr<deferral_sweep> sweep_;
  line_aligned_memory rings_; ///< outgoing ring, with the incoming ring behind it

  // ---- sending; send_mutex_
  std::vector<std::byte> first_;               ///< bytes to send before the bytes of the ring
  std::uint64_t sent_ = 0;                     ///< position up to which the ring's bytes were sent
  std::atomic<time_point::rep> send_again_{0}; ///< time until which commits are deferred
  /// True if deferred commits wait until a polling thread, or the loop, sends them. Threads set
  /// this mark without the lock; a thread that sends clears it.
  std::atomic<bool> deferred_{false};

  // ---- receiving; receive_mutex_
  record_assembler assembler_;
  std::uint64_t received_ = 0;
  unsigned misses_ = 0; ///< polls since bytes arrived
  time_point quiet_since_{};
  /// Time at which the kernel is asked again to delay acknowledgements.
  time_point next_delay_{};

  std::atomic<bool> has_refused_{false};
  std::atomic<bool> peer_lives_{false}; ///< although the connection ends

  // ---- loss of an opener's lane; used on the loop's thread
  ender end_;
  /// Number of events that must still happen before the user is told of the loss. At first there
  /// are two: the time for a notice has passed, and the peer has confirmed that it refuses the sent
  /// bytes.
  unsigned awaited_ = 2;

  /// True if the event loop waits for the peer's bytes in place of the lane's user. Threads change
  /// this mark without a lock, in every state of the lane.
  std::atomic<bool> is_watched_{false};
  std::mutex arm_mutex_;
  std::unique_ptr<stream> stream_;
  std::atomic<stream*> link_{nullptr}; ///< stream_, once usable
};

} // namespace farcall::tcp
