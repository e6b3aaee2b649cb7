#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/reactor.hpp>
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

/// Decides from a peer's replies whether it gets what this end of a connection sends, within a
/// timeout of the sending. A path that is broken for less than that holds up the replies, too; then
/// a forwarder has more time, as it repeats at growing intervals what was lost meanwhile.
class delivery_watch {
 public:
  /// Looks in one timeout.
  static constexpr int looks = 32;

  explicit delivery_watch(std::chrono::milliseconds timeout) noexcept : timeout_(timeout) {}

  /// Looks at the connection. True if the peer is to be asked: something is unconfirmed since the
  /// last look, and nothing comes.
  [[nodiscard]] bool is_due(const stream_position& own, time_point now) noexcept;
  /// True if the peer lacks for too long what it was sent before, and has space for it.
  [[nodiscard]] bool is_lost(const delivery_message& reply, const stream_position& own,
                             time_point now) noexcept;

 private:
  void begin(const stream_position& own, time_point since, time_point now) noexcept;

  std::chrono::milliseconds timeout_;
  bool awaits_ = false;
  std::uint64_t confirmed_ = 0; ///< the peer has received so far
  std::uint64_t sent_ = 0;      ///< had been sent when this time began
  std::uint64_t received_ = 0;  ///< at the last look
  time_point looked_{};
  time_point asked_{};
  time_point replied_{}; ///< or, before the first reply, when this time began
  time_point end_{};     ///< of the time in which something has to arrive
  time_point last_end_{};
};

/// An end of a connection with its name, which both ends know.
struct checked_connection {
  node_id peer = no_node;
  connection_kind kind{};   ///< lane or bulk
  std::uint64_t serial = 0; ///< chosen by the opener
  bool is_opener = false;
  std::shared_ptr<checked_end> end;
};

/// Ends of connections by name, which others own. For one thread at a time.
class connection_list {
 public:
  void add(const checked_connection& c) {
    ends_.push_back({{c.peer, c.kind, c.serial, c.is_opener, nullptr}, c.end});
  }
  /// Appends the ends that live, and forgets the others.
  void append_to(std::vector<checked_connection>& all);

 private:
  struct entry {
    checked_connection name; ///< without an end
    std::weak_ptr<checked_end> end;
  };
  std::vector<entry> ends_;
};

/// Finds lanes and connections for copies whose bytes do not arrive although the system sees them
/// acknowledged, as behind a forwarder that swallows them: asks peers past the connections, by
/// control messages, how much has arrived. Handlers that run for long do not matter, since reactors
/// ask and reply. Everything but take() and stop() happens on the reactor's thread.
class delivery_checks : public std::enable_shared_from_this<delivery_checks> {
 public:
  using lister = std::function<std::vector<checked_connection>()>;
  using teller = std::function<void(node_id peer, const delivery_message& message)>;

  delivery_checks(reactor& loop, std::chrono::milliseconds heartbeat_timeout, lister connections,
                  teller tell);

  void start();
  /// Any thread.
  void take(node_id from, const delivery_message& message);
  /// Any thread. `connections` and `tell` are not called any more once the reactor's thread has
  /// passed by.
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
  /// Name, at this end, of the connection that a peer's message is about.
  static name name_of(node_id from, const delivery_message& m) noexcept {
    return {from, m.kind(), m.serial, !m.is_of_opener()};
  }
  static delivery_message message(delivery_question what, const name& about) noexcept;

  void look_later();
  void look();
  void reply_to(node_id from, const delivery_message& question);
  void take_reply(node_id from, const delivery_message& reply);
  [[nodiscard]] std::shared_ptr<checked_end> find(const name& wanted) const;

  reactor* loop_;
  std::chrono::milliseconds timeout_;
  lister connections_;
  teller tell_;
  std::map<name, delivery_watch> watches_;
  std::atomic<bool> is_over_{false};
};

} // namespace farcall::tcp
