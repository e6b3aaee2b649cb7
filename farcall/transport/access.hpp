#pragma once

#include <farcall/base/language.hpp>

#include <string>

namespace farcall {

/// What a host and a server prove themselves to each other with: a key that both have, or
/// certificates of one authority. All are names of files. Both empty: nothing, and connections are
/// unencrypted.
struct access {
  std::string key;
  std::string certificate;
  std::string certificate_key;
  std::string authority;

  [[nodiscard]] bool is_empty() const noexcept { return key.empty() && certificate.empty(); }
};

} // namespace farcall
