#pragma once

#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <functional>
#include <mutex>
#include <string>

namespace farcall::tcp {

/// The connections of a node that have not proved yet that they belong to its job. They have an
/// eighth of the descriptors that the process may have, and 256 at most: the program wants some,
/// too. Any thread.
class unproved_arrivals {
 public:
  /// Takes over a connection, and is given what to call, not from within, when that has come or has
  /// failed.
  using receiver = std::function<refusal(std::function<void()> decided)>;

  /// Has `receive` called; where there is no room, one connection is refused before (see
  /// unproved_peers). `peer` is its address as text. Throws what `receive` does.
  void add(const std::string& peer, const receiver& receive);

 private:
  static constexpr std::size_t most = 256;

  std::mutex mutex_;
  unproved_peers<refusal> waiting_{unproved_limit(most)};
};

} // namespace farcall::tcp
