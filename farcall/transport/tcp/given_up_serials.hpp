#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace farcall::tcp {

/// Numbers of connections that a peer has given up, for the node that serves them: one that comes
/// afterwards, or goes on, is refused. The peer counts its connections up. Memory has a bound: of
/// more than `most` the lowest stand for all below them. A value, for one thread at a time.
class given_up_serials {
 public:
  static constexpr std::size_t most = 1024;

  void add(std::uint64_t serial) {
    if (serial <= floor_) return;
    serials_.insert(serial);
    if (serials_.size() <= most) return;
    floor_ = *serials_.begin();
    serials_.erase(serials_.begin());
  }
  [[nodiscard]] bool has(std::uint64_t serial) const {
    return serial <= floor_ || serials_.contains(serial);
  }

  auto operator<=>(const given_up_serials&) const = default;

 private:
  std::uint64_t floor_ = 0; ///< all up to it were given up
  std::set<std::uint64_t> serials_;
};

} // namespace farcall::tcp
