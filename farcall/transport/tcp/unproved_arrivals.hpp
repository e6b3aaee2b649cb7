// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <functional>
#include <mutex>
#include <string>

namespace farcall::tcp {

/// Connections to a node that have not proved yet that they belong to the node's job. Their number
/// is limited to an eighth of the descriptors that the process may open, and to 256, because the
/// program needs descriptors, too. Any thread may use it.
class unproved_arrivals {
 public:
  /// Function that takes over a connection, and returns the function that refuses it. `decided` is
  /// called after the function has returned, when the connection was accepted or has failed.
  using receiver = std::function<refusal(std::function<void()> decided)>;

  /// Calls `receive` for a new connection. If the limit is reached, first refuses another
  /// connection (see unproved_peers). `peer` is the peer's address as text. Throws what `receive`
  /// throws.
  void add(const std::string& peer, const receiver& receive);

 private:
  static constexpr std::size_t most = 256;

  std::mutex mutex_;
  unproved_peers<refusal> waiting_{unproved_limit(most)};
};

} // namespace farcall::tcp
