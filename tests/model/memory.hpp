#pragma once

#include <tests/model/explorer.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

/// What the explorer knows of memory, and which operations on it affect each other.
namespace farcall::check {

inline constexpr int nowhere = -1;

/// How far a thread has seen each location, and what has happened before it, as a vector clock.
struct knowledge {
  std::array<std::uint16_t, most_locations> seen{};
  std::array<std::uint32_t, most_threads> clock{};

  void see(const knowledge& other) noexcept {
    for (std::size_t i = 0; i < most_locations; ++i)
      seen[i] = std::max(seen[i], other.seen[i]);
  }
  void join(const knowledge& other) noexcept {
    see(other);
    for (std::size_t i = 0; i < most_threads; ++i)
      clock[i] = std::max(clock[i], other.clock[i]);
  }
};

/// One of the values that a location had, and what whoever acquires it learns.
struct message {
  std::uint64_t value = 0;
  knowledge carried;
};

struct location {
  const void* at = nullptr;
  std::vector<message> history;
  int holder = nowhere; ///< of a mutex
};

/// Memory that is accessed plainly.
struct plain_word {
  const void* at = nullptr;
  int writer = 0;
  std::uint32_t written = 0;
  std::array<std::uint32_t, most_threads> read{};
};

/// What a thread will do next.
struct step {
  operation what = operation::load;
  int at = nowhere;
  bool is_write = false;
  bool is_ordered = false; ///< takes part in the one order of all seq_cst operations
};

/// May something come of `known` after `now` that came of no order in which `known` was first? It
/// has been explored in that place.
[[nodiscard]] inline bool matters_after(const step& known, const step& now) noexcept {
  // A load before another thread's barrier may read all that it may read afterwards.
  if (now.what == operation::barrier && known.what == operation::load && !known.is_ordered)
    return false;
  // After a store, a barrier makes threads see it who need not see it otherwise, but may.
  if (known.what == operation::barrier &&
      (now.what == operation::store || now.what == operation::update) && !now.is_ordered) {
    return false;
  }
  if (known.what == operation::barrier || now.what == operation::barrier) return true;
  if (known.is_ordered && now.is_ordered) return true;
  return known.at != nowhere && known.at == now.at && (known.is_write || now.is_write);
}

} // namespace farcall::check
