// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/model/explorer.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

/// The explorer's model of memory, and the rules by which operations affect each other.
namespace farcall::check {

inline constexpr int nowhere = -1;

/// Newest value of each location that a thread has seen, and, as a vector clock, the operations
/// that happen before its next one.
struct knowledge {
  std::array<std::uint16_t, max_locations> seen{};
  std::array<std::uint32_t, max_threads> clock{};

  void see(const knowledge& other) noexcept {
    for (std::size_t i = 0; i < max_locations; ++i)
      seen[i] = std::max(seen[i], other.seen[i]);
  }
  void join(const knowledge& other) noexcept {
    see(other);
    for (std::size_t i = 0; i < max_threads; ++i)
      clock[i] = std::max(clock[i], other.clock[i]);
  }
};

/// A value that a location had, and the knowledge that an acquiring load takes over with it.
struct message {
  std::uint64_t value = 0;
  knowledge carried;
};

struct location {
  const void* at = nullptr;
  std::vector<message> history;
  int holder = nowhere; ///< thread that holds the mutex
};

/// Memory that is accessed without atomics.
struct plain_word {
  const void* at = nullptr;
  int writer = 0;
  std::uint32_t written = 0;
  std::array<std::uint32_t, max_threads> read{};
};

/// The next operation of a thread.
struct step {
  operation what = operation::load;
  int at = nowhere;
  bool is_write = false;
  bool is_ordered = false; ///< part of the total order of seq_cst operations
};

/// True if `known` after `now` may have results that no order with `known` first has, all of which
/// were explored.
[[nodiscard]] inline bool matters_after(const step& known, const step& now) noexcept {
  // A load before another thread's barrier may read every value that it may read after it.
  if (now.what == operation::barrier && known.what == operation::load && !known.is_ordered)
    return false;
  // A barrier after a store only forces threads to see the store, which they may see anyway.
  if (known.what == operation::barrier &&
      (now.what == operation::store || now.what == operation::update) && !now.is_ordered) {
    return false;
  }
  if (known.what == operation::barrier || now.what == operation::barrier) return true;
  if (known.is_ordered && now.is_ordered) return true;
  return known.at != nowhere && known.at == now.at && (known.is_write || now.is_write);
}

} // namespace farcall::check
