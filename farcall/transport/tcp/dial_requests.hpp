// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>

#include <atomic>
#include <memory>

/// Connect requests that the host sends when it connects two other nodes. Also limits the
/// connections that a node makes at the request of another node.
namespace farcall::tcp {

/// Returns the connect request that the host sends to the accepting node, as if `opener` had
/// dialled that node itself.
[[nodiscard]] inline connect_request acceptors_request(const dial_request& asked, node_id opener) {
  connect_request o;
  o.serial = asked.serial;
  o.kind = asked.kind == connection_kind::lane_back ? connection_kind::lane : connection_kind::bulk;
  o.from = opener;
  o.worker = asked.worker;
  o.own_worker = asked.own_worker;
  o.ring_bytes = asked.ring_bytes;
  return o;
}

/// Returns the connect request that the host sends to the opening node, as if `acceptor` had
/// dialled that node at its request.
[[nodiscard]] inline connect_request openers_request(const dial_request& asked, node_id acceptor) {
  connect_request o;
  o.serial = asked.serial;
  o.kind = asked.kind;
  o.from = acceptor;
  return o;
}

/// Counts the connections in progress that one node has requested. Any thread may use it.
class request_places {
 public:
  /// Limit of such connections, because each of them takes a descriptor.
  static constexpr unsigned most = 1024;

  /// Takes one place, which stays taken as long as the result lives. Returns null if all places are
  /// taken.
  [[nodiscard]] std::shared_ptr<const void> take() const {
    const auto give_back = [count = count_](const void* /*place*/) { count->fetch_sub(1); };
    if (count_->fetch_add(1) < most) return {count_.get(), give_back};
    count_->fetch_sub(1);
    return nullptr;
  }

 private:
  std::shared_ptr<std::atomic<unsigned>> count_ = std::make_shared<std::atomic<unsigned>>(0);
};

} // namespace farcall::tcp
