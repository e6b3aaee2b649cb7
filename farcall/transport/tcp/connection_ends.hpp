// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/given_up_serials.hpp>
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

/// A connection that another node has opened and can give up.
class revocable {
 public:
  /// Discards the bytes that have arrived but have not taken effect, and all later bytes. Called on
  /// the loop's thread, possibly several times.
  virtual void revoke() noexcept = 0;

 protected:
  ~revocable() = default;
};

/// Agreement between two nodes that a lane, or a connection for copies, has ended. After the opener
/// has lost a connection, bytes that it has sent may still arrive at the peer much later, because
/// the system repeats lost bytes and a forwarder may hold bytes back. The opener therefore tells
/// the peer, through the host, that it has given up the connection. The peer refuses all later
/// bytes of that connection, and confirms this. The opener lets its calls fail, or repeats the
/// copy, only after the confirmation, or if the peer counts as gone.
///
/// Any thread may call the functions unless their comment says otherwise. Callbacks run on the
/// loop's thread.
class connection_ends : public std::enable_shared_from_this<connection_ends> {
 public:
  /// Function that sends a message to a peer. It must not block. The message may be lost.
  using teller = std::function<void(node_id peer, const dial_request&)>;

  connection_ends(event_loop& loop, teller tell) : loop_(&loop), tell_(std::move(tell)) {}

  /// Tells `peer` that this node has given up the connection with this serial number, which this
  /// node had opened; `kind` is lane or bulk. Calls `refused` once the peer has confirmed that it
  /// refuses further bytes of the connection. If the peer counts as gone before, `refused` is never
  /// called.
  void give_up(node_id peer, connection_kind kind, std::uint64_t serial,
               std::function<void()> refused);

  /// Records a connection that the peer has opened, so that the connection is revoked when the peer
  /// gives it up; `kind` is lane or bulk. Returns false if the peer has given up the connection
  /// already. Called on the loop's thread.
  [[nodiscard]] bool add(node_id peer, connection_kind kind, std::uint64_t serial,
                         const std::shared_ptr<revocable>& connection);

  /// Handles a peer's message `given_up` or `refused`. Called on the loop's thread.
  void take(node_id peer, const dial_request& said);

  /// Stops repeating the messages that a peer has not confirmed, because the peer is gone. Their
  /// `refused` callbacks are not called.
  void forget(node_id peer) noexcept;
  /// Stops sending `given_up` messages. A repetition that is running on the loop's thread is
  /// completed.
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

  event_loop* loop_;
  teller tell_;

  std::mutex mutex_;
  std::map<name, std::function<void()>> unconfirmed_; ///< connections that this node has given up
  std::map<node_id, bool> gone_;
  bool repeats_ = false; ///< a repetition is scheduled
  bool is_over_ = false;

  // ---- the loop's thread
  std::map<node_id, std::map<connection_kind, given_up_serials>> given_up_; ///< by each peer
  std::multimap<name, std::weak_ptr<revocable>> served_;
  /// Number of entries in served_ from which on add() removes the entries of connections that have
  /// ended.
  std::size_t purge_at_ = 64;
};

} // namespace farcall::tcp
