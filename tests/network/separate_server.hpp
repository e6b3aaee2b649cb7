// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/faults/support.hpp"

#include <string>

namespace farcall::test {

/// A server that farcall takes for another machine, since it runs as another user: a process in a
/// user namespace in which it has that number.
class separate_server {
 public:
  enum class network : unsigned char {
    ours,
    own, ///< its own network, reached through a tunnel like `ssh -L`
  };
  /// The server's targets run this program. `user` must differ for each server.
  separate_server(unsigned user, network in, const std::string& key);

  /// True if this process may make such namespaces.
  [[nodiscard]] static bool is_possible();

  /// URL at which the host reaches the server.
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  role_process process_;
  std::string url_;
};

} // namespace farcall::test
