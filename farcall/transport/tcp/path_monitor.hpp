#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/tcp/reactor.hpp>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace farcall::tcp {

/// Systems acknowledge, and repeat, after up to 200 ms on a sound path.
inline constexpr std::chrono::milliseconds shortest_path_timeout{500};

/// What the system knows of that which was sent over a connection (TCP_INFO).
struct path_sample {
  std::uint64_t acknowledged = 0; ///< bytes, since it was made
  std::uint32_t in_flight = 0;    ///< segments that are not acknowledged
  std::uint32_t probes = 0;       ///< of an idle connection or a closed window, not answered
  std::chrono::milliseconds since_sent{0};
  std::chrono::milliseconds since_acknowledgement{0};
  std::chrono::microseconds round_trip{0};
};

/// Nothing for what is no connection any more.
[[nodiscard]] std::optional<path_sample> sample_path(int fd) noexcept;
/// True if the system waits for an acknowledgement of what was sent.
[[nodiscard]] inline bool is_in_flight(int fd) noexcept {
  const std::optional<path_sample> path = sample_path(fd);
  return path && path->in_flight != 0;
}

/// Tells a path that is broken from a peer that takes nothing in: the system of the latter
/// acknowledges what it is sent, whatever its process does.
class path_watch {
 public:
  explicit path_watch(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

  /// True if the peer has acknowledged neither what was sent nor, after the timeout, a repetition
  /// or a probe of an idle connection: a path that comes back within the timeout is found by the
  /// next one. At the latest after twice the timeout.
  [[nodiscard]] bool is_lost(const path_sample& s, time_point now) noexcept;

 private:
  std::chrono::milliseconds timeout_;
  /// Between these two looks the last probe was sent.
  struct probe {
    time_point after{};
    time_point before{};
  };
  void note_probe(const path_sample& s, time_point now) noexcept;

  bool awaits_ = false;
  time_point since_{}; ///< nothing was acknowledged
  std::uint64_t acknowledged_ = 0;
  time_point last_look_{};
  std::uint32_t probes_ = 0;
  probe last_probe_;
};

/// Ends connections whose path is lost: their users find the end, and the system throws away what
/// has not arrived. Keepalive waits while data are outstanding, and the system sends these again
/// for a quarter of an hour. TCP_USER_TIMEOUT ends connections to live peers, too, that take
/// nothing in, as a node in a long call does.
class path_monitor : public std::enable_shared_from_this<path_monitor> {
  struct entry;

 public:
  /// A connection that is watched as long as this lives; its socket has to live longer.
  class watched {
   public:
    watched() noexcept = default;
    watched(std::shared_ptr<path_monitor> by, std::list<entry>::iterator at) noexcept
        : by_(std::move(by)), at_(at) {}
    watched(watched&& other) noexcept = default;
    watched& operator=(watched&& other) noexcept;
    ~watched() { end(); }

   private:
    void end() noexcept;

    std::shared_ptr<path_monitor> by_;
    std::list<entry>::iterator at_;
  };

  path_monitor(reactor& loop, std::chrono::milliseconds timeout);

  /// Any thread.
  [[nodiscard]] watched watch(int fd);
  /// No connection is looked at any more once the reactor's thread has passed by.
  void stop() noexcept;

 private:
  struct entry {
    int fd;
    path_watch state;
    bool is_ended = false; ///< its user finds that, some time
  };

  void look() noexcept;
  void look_later();

  reactor* loop_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::list<entry> entries_;
  bool is_looking_ = false; ///< a look is to come
  bool is_over_ = false;
};

} // namespace farcall::tcp
