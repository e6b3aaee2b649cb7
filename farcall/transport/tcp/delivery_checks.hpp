// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>

#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace farcall::tcp {

/// Judges from a peer's replies whether the bytes that this end of a connection sends reach the
/// peer within a timeout. If the replies were delayed, too, the path was broken for a while. In
/// this case the bytes get more time, because a forwarder on the path repeats lost bytes at growing
/// intervals.
class delivery_watch {
 public:
  /// Number of checks within one timeout.
  static constexpr int looks = 32;

  explicit delivery_watch(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

  /// Checks the connection. Returns true if the peer must be asked how many bytes have arrived:
  /// some bytes have stayed unconfirmed since the last check, and no bytes arrive from the peer.
  [[nodiscard]] bool is_due(const stream_position& own, time_point now) noexcept;
  /// Judges a reply of the peer. Returns true if bytes that were sent about a timeout ago have not
  /// reached the peer, although the peer has space for them.
  [[nodiscard]] bool is_lost(const delivery_message& reply, const stream_position& own,
                             time_point now) noexcept;

 private:
  void begin(const stream_position& own, time_point since, time_point now) noexcept;

  std::chrono::milliseconds timeout_;
  bool awaits_ = false;
  std::uint64_t confirmed_ = 0; ///< number of bytes that the peer has received
  std::uint64_t sent_ = 0;      ///< number of bytes sent before this period began
  std::uint64_t received_ = 0;  ///< number of bytes received at the last check
  time_point looked_{};
  time_point asked_{};
  time_point replied_{}; ///< time of the last reply, or of the start of the period
  /// End of the current period, by which more bytes must have reached the peer.
  time_point end_{};
  time_point last_end_{};
};

/// An end of a connection, together with the name by which both ends know the connection.
struct checked_connection {
  node_id peer = no_node;
  connection_kind kind{};   ///< lane or bulk
  std::uint64_t serial = 0; ///< chosen by the opener
  bool is_opener = false;
  std::shared_ptr<checked_end> end;
};

/// List of named ends of connections, which other objects own. One thread at a time uses the list.
class connection_list {
 public:
  void add(const checked_connection& c) {
    ends_.push_back({{c.peer, c.kind, c.serial, c.is_opener, nullptr}, c.end});
  }
  /// Appends the ends that still exist to `all`, and removes the other ends from the list.
  void append_to(std::vector<checked_connection>& all);

 private:
  struct entry {
    checked_connection name; ///< its `end` is null
    std::weak_ptr<checked_end> end;
  };
  std::vector<entry> ends_;
};

/// Finds lanes, and connections for copies, whose bytes are acknowledged but do not arrive, for
/// instance because a forwarder swallows them. Control messages, which take another connection, ask
/// the peers how many bytes have arrived. Long-running handlers do not disturb the check, because
/// event loops ask and reply. All functions except start(), take() and stop() run on the loop's
/// thread.
class delivery_checks : public std::enable_shared_from_this<delivery_checks> {
 public:
  using lister = std::function<std::vector<checked_connection>()>;
  using teller = std::function<void(node_id peer, const delivery_message& message)>;

  delivery_checks(event_loop& loop, std::chrono::milliseconds heartbeat_timeout, lister connections,
                  teller tell);

  void start();
  /// Any thread.
  void take(node_id from, const delivery_message& message);
  /// Stops the checks; any thread may call this. After a check that is running on the loop's thread
  /// has ended, `connections` and `tell` are not called any more.
  void stop() noexcept { is_over_.store(true); }

 private:
  struct name {
    node_id peer;
    connection_kind kind;
    std::uint64_t serial;
    bool is_opener;
    auto operator<=>(const name&) const = default;
  };
  static name name_of(const checked_connection& c) noexcept {
    return {c.peer, c.kind, c.serial, c.is_opener};
  }
  /// Returns the name by which this end knows the connection that a peer's message is about.
  static name name_of(node_id from, const delivery_message& m) noexcept {
    return {from, m.kind(), m.serial, !m.is_of_opener()};
  }
  static delivery_message message(delivery_question what, const name& about) noexcept;

  void poll_later();
  void look();
  void reply_to(node_id from, const delivery_message& question);
  void take_reply(node_id from, const delivery_message& reply);
  [[nodiscard]] std::shared_ptr<checked_end> find(const name& wanted) const;

  event_loop* loop_;
  std::chrono::milliseconds timeout_;
  lister connections_;
  teller tell_;
  std::map<name, delivery_watch> watches_;
  std::atomic<bool> is_over_{false};
};

} // namespace farcall::tcp
