// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace farcall::tcp {

/// Least timeout for a path. On a path that works, a system may take up to 200 ms to acknowledge
/// bytes, or to send lost bytes again.
inline constexpr std::chrono::milliseconds min_path_timeout{500};

/// Report of the system about the bytes that were sent over a connection (TCP_INFO).
struct path_sample {
  /// Number of bytes that the peer's system has acknowledged since the connection was made.
  std::uint64_t acknowledged = 0;
  std::uint32_t in_flight = 0; ///< segments not acknowledged
  /// Number of probes of an idle connection, or of a closed window, that have had no reply yet.
  std::uint32_t probes = 0;
  std::chrono::milliseconds since_sent{0};
  std::chrono::milliseconds since_acknowledgement{0};
  std::chrono::microseconds round_trip{0};
};

/// Returns the state of a TCP connection; nullopt if the descriptor is no TCP connection.
[[nodiscard]] std::optional<path_sample> sample_path(int fd) noexcept;
/// True if the system waits for an acknowledgement of sent bytes.
[[nodiscard]] inline bool is_in_flight(int fd) noexcept {
  const std::optional<path_sample> path = sample_path(fd);
  return path && path->in_flight != 0;
}

/// Distinguishes a broken path from a peer that does not read. On a path that works, the peer's
/// system acknowledges bytes no matter what its process does.
class path_watch {
 public:
  explicit path_watch(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

  /// True if the path is broken: the peer has acknowledged neither the sent bytes nor, after the
  /// timeout, a retransmission or a probe. If a path recovers within the timeout, the next
  /// retransmission or probe is acknowledged. The function decides after twice the timeout at the
  /// latest.
  [[nodiscard]] bool is_lost(const path_sample& s, time_point now) noexcept;

 private:
  std::chrono::milliseconds timeout_;
  /// Times of the two checks between which the system has sent its last probe.
  struct probe {
    time_point after{};
    time_point before{};
  };
  void note_probe(const path_sample& s, time_point now) noexcept;

  bool awaits_ = false;
  time_point since_{}; ///< time since which no byte was acknowledged
  std::uint64_t acknowledged_ = 0;
  time_point last_look_{};
  std::uint32_t probes_ = 0;
  probe last_probe_;
};

/// Ends connections whose path is broken, so that their users see the end and the system discards
/// undelivered bytes. The system's own means are not enough. TCP keepalive pauses while data is
/// outstanding, and the system retransmits for a quarter of an hour. TCP_USER_TIMEOUT would also
/// end connections to live peers that do not read, such as a node in a long call.
class path_monitor : public std::enable_shared_from_this<path_monitor> {
  struct entry;

 public:
  /// Watches a connection as long as the object lives. The socket must live longer than the object.
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

  path_monitor(event_loop& loop, std::chrono::milliseconds timeout);

  /// Any thread.
  [[nodiscard]] watched watch(int fd);
  /// Stops the checks of all connections. Waits for a check that is running on the loop's thread.
  void stop() noexcept;

 private:
  struct entry {
    int fd;
    path_watch state;
    bool is_ended = false; ///< the monitor has ended the connection; its user will notice the end
  };

  void look() noexcept;
  void poll_later();

  event_loop* loop_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::list<entry> entries_;
  bool is_looking_ = false; ///< a check is scheduled
  bool is_over_ = false;
};

} // namespace farcall::tcp
