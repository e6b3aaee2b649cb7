#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/lane.hpp>
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

/// Decides from a peer's replies whether it gets what this end of a lane sends.
class delivery_watch {
 public:
  /// Looks at the lane. True if the peer is to be asked: something is unconfirmed since the last
  /// look, and nothing comes.
  [[nodiscard]] bool is_due(const lane_position& own, time_point now) noexcept;
  /// True if the peer lacks for `limit` what it was sent before, and has space for it.
  [[nodiscard]] bool is_lost(const lane_message& reply, const lane_position& own,
                             std::chrono::milliseconds limit, time_point now) noexcept;

 private:
  void begin(const lane_position& own, time_point now) noexcept;

  bool awaits_ = false;
  std::uint64_t confirmed_ = 0; ///< the peer has received so far
  std::uint64_t sent_ = 0;      ///< had been sent at `since_`
  std::uint64_t received_ = 0;  ///< at the last look
  time_point since_{};
};

/// An end of a lane with its name, which both ends know.
struct checked_lane {
  node_id peer = no_node;
  std::uint64_t serial = 0; ///< chosen by the opener
  bool is_opener = false;
  std::shared_ptr<stream_endpoint> lane;
};

/// Finds lanes whose bytes do not arrive although the system sees them acknowledged, as behind a
/// forwarder that swallows them: asks peers past the lanes, by control messages, how much has
/// arrived. Handlers that run for long do not matter, since reactors ask and reply. Everything but
/// take() and stop() happens on the reactor's thread.
class lane_checks : public std::enable_shared_from_this<lane_checks> {
 public:
  using lister = std::function<std::vector<checked_lane>()>;
  using teller = std::function<void(node_id peer, const lane_message& message)>;

  lane_checks(reactor& loop, std::chrono::milliseconds heartbeat_timeout, lister lanes,
              teller tell);

  void start();
  /// Any thread.
  void take(node_id from, const lane_message& message);
  /// Any thread. `lanes` and `tell` are not called any more once the reactor's thread has passed
  /// by.
  void stop() noexcept { is_over_.store(true); }

 private:
  struct name {
    node_id peer;
    std::uint64_t serial;
    bool is_opener;
    auto operator<=>(const name&) const = default;
  };
  static name name_of(const checked_lane& l) noexcept { return {l.peer, l.serial, l.is_opener}; }

  void look_later();
  void look();
  void reply_to(node_id from, const lane_message& question);
  void take_reply(node_id from, const lane_message& reply);
  [[nodiscard]] std::shared_ptr<stream_endpoint> find(const name& wanted) const;

  reactor* loop_;
  std::chrono::milliseconds interval_;
  std::chrono::milliseconds limit_;
  lister lanes_;
  teller tell_;
  std::map<name, delivery_watch> watches_;
  std::atomic<bool> is_over_{false};
};

} // namespace farcall::tcp
