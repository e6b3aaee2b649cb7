#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/transport/staged_lane.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>
#include <farcall/transport/tcp/reactor.hpp>
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

/// One end of a lane over a connection. What its user commits goes out of the ring as it stands
/// there, and what comes in goes into the other ring as it stood in the peer's: a position in the
/// stream is a position in the ring, which has one size on both ends. A ring that is full stops the
/// socket from being read, so that the system's flow control is the lane's.
///
/// The lane's user moves the bytes while it polls; the reactor moves them while the user sleeps, or
/// has found nothing for a while.
class stream_endpoint final : public staged_lane,
                              public event_handler,
                              public revocable,
                              public checked_end,
                              public std::enable_shared_from_this<stream_endpoint> {
 public:
  /// Has the peer refuse what may still come over the connection, and then calls `refused`, once,
  /// on the reactor's thread. Must not block.
  using ender = std::function<void(std::function<void()> refused)>;

  /// `wakes` is the doorbell of the lane's user here. The opener's end takes the end of the
  /// connection for a loss, the acceptor's takes it for the opener's close.
  stream_endpoint(reactor& loop, std::uint32_t ring_bytes, doorbell& wakes, lane_role role);
  ~stream_endpoint() override;

  /// For an opener, before it is attached: its user is told of a loss once the peer refuses the
  /// rest of what was sent.
  void on_loss(ender end) { end_ = std::move(end); }

  /// For an acceptor: drops the requests that were not begun, too.
  void revoke() noexcept override;

  /// The connection stands: sends `first`, then what was committed meanwhile. Once, on the
  /// reactor's thread.
  void attach(std::unique_ptr<stream> connection, std::span<const std::byte> first);
  /// The connection did not come about.
  void give_up(const std::string& why);
  /// Attaches the connection, or gives up for this reason if there is none. Does nothing if the
  /// lane has a connection, which a peer may have made meanwhile.
  void attach_or_give_up(std::unique_ptr<stream> connection, std::span<const std::byte> first,
                         const std::string& why);
  /// It has come about, once. On the reactor's thread.
  [[nodiscard]] bool is_attached() const noexcept { return link() != nullptr; }
  /// The same, unless it has come about. On the reactor's thread.
  void give_up_if_late(const std::string& why) {
    if (link() == nullptr && !has_ended()) give_up(why);
  }

  void progress() noexcept override;
  void arm() noexcept override;
  void on_event(std::uint32_t events) noexcept override;

  /// Sends what its user had put off.
  void send_deferred() noexcept;

  /// Nothing more comes: the peer has ended its sending in order, and all that it sent lies in the
  /// ring, or the connection is lost.
  [[nodiscard]] bool has_ended() const noexcept { return is_over(in_.state()); }

  /// The user has refused to serve more, and the peer was told: what lies in the ring is nobody's.
  [[nodiscard]] bool has_refused() const noexcept {
    // Acquire; partner: the release store in leave().
    return has_refused_.load(std::memory_order_acquire);
  }

  /// The user is done with the rings; what was committed is still sent, what comes is dropped.
  void finish() noexcept;
  /// After finish(): the peer has not taken everything yet. A socket that is closed before that, or
  /// with something unread, may lose what it has sent.
  [[nodiscard]] bool is_lingering() const noexcept { return !has_ended(); }
  /// Something was committed that has not gone to the system.
  [[nodiscard]] bool has_unsent() noexcept;
  [[nodiscard]] bool is_open() const noexcept override { return is_attached() && !has_ended(); }
  [[nodiscard]] stream_position position() noexcept override;
  /// Receives what has come, whatever its user does.
  void take_in() noexcept override {
    if (is_attached()) on_event(0);
  }
  void end_connection() noexcept override;
  /// Gives the connection up at once, and soon its descriptor. The rings stay.
  void cut() noexcept;
  /// Cuts a lane whose peer counts as gone, and throws away what was sent and has not arrived.
  void abort() noexcept;

 private:
  static void committed(void* lane) noexcept;
  /// Commits are not put off now.
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

  /// Null while the connection does not stand.
  [[nodiscard]] stream* link() const noexcept { return link_.load(std::memory_order_seq_cst); }
  [[nodiscard]] bool is_established() const noexcept;

  reactor* loop_;
  line_aligned_memory rings_; ///< out, then in

  // ---- sending; send_mutex_
  std::vector<std::byte> first_;               ///< goes before the ring's bytes
  std::uint64_t sent_ = 0;                     ///< up to here the ring's went to the system
  std::atomic<time_point::rep> send_again_{0}; ///< before that, commits are put off
  /// A mark that passes between threads without the lock: somebody counts on the next thread that
  /// polls, or on the reactor, to send.
  std::atomic<bool> deferred_{false};

  // ---- receiving; receive_mutex_
  record_assembler assembler_;
  std::uint64_t received_ = 0;
  unsigned misses_ = 0; ///< polls since something came
  time_point quiet_since_{};
  time_point next_delay_{}; ///< of acknowledgements

  std::atomic<bool> has_refused_{false};
  std::atomic<bool> peer_lives_{false}; ///< although the connection ends

  // ---- a loss, of an opener; the reactor's thread
  ender end_;
  unsigned awaited_ = 2; ///< before it is declared: notice of the node's end, and the peer's reply

  /// Who polls for what comes: the reactor, or else the user. Passed on without a lock, and in
  /// every state of the lane.
  std::atomic<bool> is_watched_{false};
  std::mutex arm_mutex_;
  std::unique_ptr<stream> stream_;
  std::atomic<stream*> link_{nullptr}; ///< stream_, once it may be used
};

} // namespace farcall::tcp
