#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/given_up_serials.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace farcall::tcp {

/// A connection from another node that its opener can give up.
class revocable {
 public:
  /// Drops what came over it and has not taken effect, and what still comes. On the reactor's
  /// thread; more than once.
  virtual void revoke() noexcept = 0;

 protected:
  ~revocable() = default;
};

/// The agreement of two nodes that a lane, or a connection for copies, has ended. A connection that
/// is lost for its opener may deliver its bytes much later: the system repeats them, and somebody
/// on the way may hold them. So the opener tells the peer, by way of the host, before the calls
/// fail or the copy is repeated. The peer refuses what comes from then on, and says so.
///
/// Any thread, except where said. Callbacks run on the reactor's thread.
class connection_ends : public std::enable_shared_from_this<connection_ends> {
 public:
  /// Sends a message to a peer; must not block. It may get lost.
  using teller = std::function<void(node_id peer, const dial_request&)>;

  connection_ends(reactor& loop, teller tell) : loop_(&loop), tell_(std::move(tell)) {}

  /// `kind`: lane or bulk. Calls `refused` once the peer refuses what comes over our connection of
  /// that serial; never if the peer counts as gone before.
  void give_up(node_id peer, connection_kind kind, std::uint64_t serial,
               std::function<void()> refused);

  /// Takes note of a connection from the peer; `kind`: lane or bulk. False if the peer has given it
  /// up. On the reactor's thread.
  [[nodiscard]] bool add(node_id peer, connection_kind kind, std::uint64_t serial,
                         const std::shared_ptr<revocable>& connection);

  /// The peer says given_up or refused. On the reactor's thread.
  void take(node_id peer, const dial_request& said);

  /// The peer is gone: what it was told, and has not replied to, is dropped.
  void forget(node_id peer) noexcept;
  /// Ends all sending, once the reactor's thread has passed by.
  void stop() noexcept;

 private:
  struct name {
    node_id peer = no_node;
    connection_kind kind{};
    std::uint64_t serial = 0;
    auto operator<=>(const name&) const = default;
  };

  void tell(const name& connection, connection_word word) const;
  void repeat_later();
  void repeat() noexcept;

  reactor* loop_;
  teller tell_;

  std::mutex mutex_;
  std::map<name, std::function<void()>> unconfirmed_; ///< ours
  std::map<node_id, bool> gone_;
  bool repeats_ = false; ///< a repetition is to come
  bool is_over_ = false;

  // ---- the reactor's thread
  std::map<node_id, std::map<connection_kind, given_up_serials>> given_up_; ///< by peers
  std::multimap<name, std::weak_ptr<revocable>> served_;
  std::size_t purge_at_ = 64; ///< entries of connections that have ended go then
};

} // namespace farcall::tcp
