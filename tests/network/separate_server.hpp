#pragma once

#include "tests/faults/support.hpp"

#include <string>

namespace farcall::test {

/// A server that is on another machine as far as farcall knows, since it runs as another user: in a
/// process of its own, and in a user namespace where it has that number.
class separate_server {
 public:
  enum class network : unsigned char {
    ours,
    own, ///< one of its own, into which a tunnel leads, like that of `ssh -L`
  };
  /// Its targets run this program. `user` is another one for each server.
  separate_server(unsigned user, network in, const std::string& key);

  /// Whether this process may make such namespaces.
  [[nodiscard]] static bool is_possible();

  /// How its host reaches it.
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  role_process process_;
  std::string url_;
};

} // namespace farcall::test
