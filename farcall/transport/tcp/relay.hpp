// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/epoll.h>

namespace farcall {

/// Header of a message on a connection between host and server. The body follows.
struct frame_header {
  std::uint32_t bytes = 0; ///< of the body
  std::uint32_t kind = 0;  ///< value of `control`, or 0 for a heartbeat
};
static_assert(sizeof(frame_header) == 8);

/// Extends a control socket over a network. The near side is a control socket of this process; the
/// far side is the relay at the other end of a network connection. Messages from one side are sent
/// on to the other. The host and the server each have a relay, and the two relays exchange
/// heartbeats. A relay runs on the loop's thread.
class relay : public std::enable_shared_from_this<relay> {
 public:
  /// Function that is called once, on the loop's thread, before the near side's socket is closed.
  /// `why` says why the far side can no longer be reached; it is empty if one of the sides has
  /// closed in order.
  using end_handler = std::function<void(control_socket& near, const std::string& why)>;

  /// The connection counts as ended if the far side is silent for longer than `heartbeat_timeout`
  /// and a margin. The margin is for a path that recovers just before the timeout.
  relay(event_loop& loop, control_socket near, std::unique_ptr<tcp::stream> far,
        std::chrono::milliseconds heartbeat_timeout, end_handler on_end);
  ~relay();

  /// Keeps the connection to the far side open for a while after the near side has ended. A server
  /// calls this for a target, so that it can send the exit reason of the target's process with
  /// finish_far(). Called before start().
  void await_exit_reason() noexcept { awaits_exit_reason_ = true; }

  /// Function that handles messages for this process itself, which the relay must not send on to
  /// its other side. Returns true if it has handled the message, and false if the relay must send
  /// the message on. Throws malformed_message.
  using taker = std::function<bool(control kind, std::span<const std::byte> body)>;

  /// Sets the function to which each message from the far side is passed first; it is called on the
  /// loop's thread. Called before start().
  void take_here(taker takes) { takes_ = std::move(takes); }
  /// Sets the function to which each message from the near side is passed first; it is called on
  /// the loop's thread. Called before start().
  void take_near_here(taker takes) { takes_near_ = std::move(takes); }

  /// Sets the first message to the far side, which is sent before any heartbeat. Called before
  /// start().
  void begin_with(control kind, std::span<const std::byte> body) { append(kind, body); }

  /// Begins to relay messages. Called once, on any thread.
  void start();

  /// Sends a message to the near side without blocking; see control_socket::send(). Called on the
  /// loop's thread.
  bool send_near(control kind, std::span<const std::byte> body, std::span<const int> files = {});
  /// Sends a message to the far side. The caller limits the bytes in flight. Called on the loop's
  /// thread.
  void send_far(control kind, std::span<const std::byte> body);
  /// Sends a message to the far side behind all messages of the near side, and then ends the relay.
  /// Called on the loop's thread.
  void finish_far(control kind, std::span<const std::byte> body);
  /// Ends the relay at once. Called on the loop's thread.
  void end(const std::string& why) noexcept;

 private:
  class end_point;

  void watch_near();
  void ignore_near() noexcept;
  /// Schedules a call of on_near(), for a near side that has no descriptor.
  void look_near_soon();
  [[nodiscard]] bool takes_from_near() const noexcept;
  void on_near() noexcept;
  void on_near_end() noexcept;
  void on_far() noexcept;
  /// Schedules a call of on_far() after the loop's other events.
  void look_far_soon();
  [[nodiscard]] bool has_space_for_near() const noexcept;
  void on_far_end(const std::string& why);
  void take_frames();
  void pass_on();
  void retry_later();
  void append(control kind, std::span<const std::byte> body);
  void put(control kind, std::span<const std::byte> body);
  void flush() noexcept;
  void part() noexcept;
  void tick();
  void watch() noexcept;
  void watch(int fd, std::uint32_t events, std::uint32_t& before) noexcept;

  event_loop* loop_;
  control_socket near_;
  std::unique_ptr<tcp::stream> far_;
  std::chrono::milliseconds heartbeat_timeout_;
  end_handler on_end_;
  taker takes_;
  taker takes_near_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::deque<control_message> for_near_; ///< messages for which the near side had no space yet
  std::size_t for_near_bytes_ = 0;       ///< bytes of their bodies
  time_point last_received_;
  time_point last_said_;
  time_point next_tick_{}; ///< time at which tick() is called next
  bool awaits_exit_reason_ = false;
  bool is_finishing_ = false;
  /// True once all messages were sent and the sending was ended, so that the relay only waits for
  /// the end of the far side.
  bool is_parting_ = false;
  bool is_retrying_ = false;
  bool reads_near_ = true; ///< false if the near side has ended, or is ignored
  bool is_looking_near_soon_ = false;
  bool is_looking_far_soon_ = false;
  std::uint32_t far_events_ = EPOLLIN; ///< events that the loop was asked to report
  std::uint32_t near_events_ = EPOLLIN;
  /// Reason why the far side has ended. It is kept until the last messages from the far side were
  /// sent to the near side.
  std::optional<std::string> exit_reason_;
  /// True if no more bytes can be sent to the far side. Messages that it has sent may still arrive.
  bool is_far_closed_ = false;
  bool is_over_ = false;
};

} // namespace farcall
