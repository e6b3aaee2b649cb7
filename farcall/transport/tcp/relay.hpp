#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/tcp/reactor.hpp>
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

/// First bytes of a message on a connection between host and server; the body follows.
struct frame_header {
  std::uint32_t bytes = 0; ///< of the body
  std::uint32_t kind = 0;  ///< as control; 0: a heartbeat
};
static_assert(sizeof(frame_header) == 8);

/// Lengthens a control socket over a network: what comes in at one end goes out at the other. There
/// is one on the host and one on the server, and they send each other heartbeats. Runs on the
/// reactor's thread.
class relay : public std::enable_shared_from_this<relay> {
 public:
  /// Called once, on the reactor's thread, before the near side's socket is closed: why the far
  /// side can no longer be reached, or nothing when either side has ended in order.
  using end_handler = std::function<void(control_socket& near, const std::string& why)>;

  /// A far side that is silent for longer than `heartbeat_timeout` has ended.
  relay(tcp::reactor& loop, control_socket near, std::unique_ptr<tcp::stream> far,
        std::chrono::milliseconds heartbeat_timeout, end_handler on_end);
  ~relay();

  /// The near side's end does not end the far side at once: the one that watches the process there
  /// is about to say with finish_far() how it ended. Before start().
  void await_exit_reason() noexcept { awaits_exit_reason_ = true; }

  /// Takes a message of the far side that is not for the near one; false for others. Throws
  /// malformed_message.
  using taker = std::function<bool(control kind, std::span<const std::byte> body)>;

  /// On the reactor's thread. Before start().
  void take_here(taker takes) { takes_ = std::move(takes); }
  /// The same of messages of the near side that are not for the far one.
  void take_near_here(taker takes) { takes_near_ = std::move(takes); }

  /// The first that the far side hears, before any heartbeat. Before start().
  void begin_with(control kind, std::span<const std::byte> body) { append(kind, body); }

  /// Begins. Any thread, once.
  void start();

  /// To the near side, from the reactor's thread; see control_socket::send. Does not wait.
  bool send_near(control kind, std::span<const std::byte> body, std::span<const int> files = {});
  /// To the far side, from the reactor's thread. Whoever sends bounds how much is under way.
  void send_far(control kind, std::span<const std::byte> body);
  /// To the far side, behind what the near side has sent; then ends. From the reactor's thread.
  void finish_far(control kind, std::span<const std::byte> body);
  /// Ends now. From the reactor's thread.
  void end(const std::string& why) noexcept;

 private:
  class end_point;

  void watch_near();
  void ignore_near() noexcept;
  /// Has on_near() called soon, of a near side without descriptor.
  void look_near_soon();
  [[nodiscard]] bool takes_from_near() const noexcept;
  void on_near() noexcept;
  void on_near_end() noexcept;
  void on_far() noexcept;
  /// Has on_far() called again, once others had their turn.
  void look_far_soon();
  [[nodiscard]] bool has_room_for_near() const noexcept;
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

  tcp::reactor* loop_;
  control_socket near_;
  std::unique_ptr<tcp::stream> far_;
  std::chrono::milliseconds heartbeat_timeout_;
  end_handler on_end_;
  taker takes_;
  taker takes_near_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::deque<control_message> for_near_; ///< found no space yet
  std::size_t for_near_bytes_ = 0;       ///< of them
  time_point last_received_;
  time_point last_said_;
  time_point next_tick_{}; ///< when it is due
  bool awaits_exit_reason_ = false;
  bool is_finishing_ = false;
  bool is_parting_ = false; ///< everything was said; only the far side's end is awaited
  bool is_retrying_ = false;
  bool hears_near_ = true; ///< its end was not heard yet, nor is it ignored
  bool is_looking_near_soon_ = false;
  bool is_looking_far_soon_ = false;
  std::uint32_t far_events_ = EPOLLIN; ///< what is asked of the reactor
  std::uint32_t near_events_ = EPOLLIN;
  std::optional<std::string> last_word_; ///< why the far side has ended, if near does not know yet
  bool is_far_deaf_ = false;             ///< it takes nothing more, but may have said something
  bool is_over_ = false;
};

} // namespace farcall
