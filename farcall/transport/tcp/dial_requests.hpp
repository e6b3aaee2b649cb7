#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>

#include <atomic>
#include <memory>

/// Requests and limits for connections that one node makes because another has asked for them.
namespace farcall::tcp {

/// Connect request to the node that accepts, from a host that dials in place of `opener`.
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

/// Connect request to the node that opens, from a host that dials in place of `acceptor`.
[[nodiscard]] inline connect_request openers_request(const dial_request& asked, node_id acceptor) {
  connect_request o;
  o.serial = asked.serial;
  o.kind = asked.kind;
  o.from = acceptor;
  return o;
}

/// How many connections are being made because one node has asked for them. Any thread.
class request_places {
 public:
  /// Each connection takes a descriptor.
  static constexpr unsigned most = 1024;

  /// Makes one more count as long as the result lives. Null if there are too many.
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
