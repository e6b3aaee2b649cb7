// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace farcall::tcp {

/// Serial numbers of the connections that a peer has given up. The serving node refuses such a
/// connection if it arrives later, and refuses its further bytes. Each peer numbers its connections
/// upwards. Memory is limited: if there are more than `most` serial numbers, the lowest one is
/// removed, and all numbers up to it count as given up. This is a value type; one thread at a time
/// uses it.
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
  std::uint64_t floor_ = 0; ///< all serial numbers up to this one were given up
  std::set<std::uint64_t> serials_;
};

} // namespace farcall::tcp
