// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <tests/sanitizer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

/// Helpers of tests of several layers.
namespace farcall::test {

/// Timeout of a test that waits for an event that should happen at once.
inline constexpr std::chrono::seconds wait_limit{60};

/// Spins, and yields in every 64th iteration, since tests run on machines with few cores.
class spinner {
 public:
  void pause() {
    if (++turns_ % 64 == 0) {
      std::this_thread::yield();
    } else {
      spin_pause();
    }
  }

 private:
  unsigned turns_ = 0;
};

/// Throws and catches an Error once. UndefinedBehaviorSanitizer opens a pipe to check the memory of
/// a type that it has not seen before; a test that has used up the descriptors has none for it.
template <class Error>
void show_to_sanitizer() {
  try {
    throw Error("shown");
  } catch (const Error&) {
  }
}

/// Waits until `done()` is true. Returns false if that takes longer than `wait_limit`.
template <class Condition>
[[nodiscard]] bool eventually(Condition done) {
  const time_point deadline = clock::now() + wait_limit;
  for (spinner s; !done(); s.pause()) {
    if (clock::now() > deadline) return false;
  }
  return true;
}

/// Returns a number that looks random and depends on `n` only (splitmix64).
[[nodiscard]] constexpr std::uint64_t scrambled(std::uint64_t n) noexcept {
  n += 0x9E3779B97F4A7C15;
  n = (n ^ n >> 30) * 0xBF58476D1CE4E5B9;
  n = (n ^ n >> 27) * 0x94D049BB133111EB;
  return n ^ n >> 31;
}

/// Returns byte `at` of the content that belongs to number `n`.
[[nodiscard]] constexpr std::byte content(std::uint64_t n, std::size_t at) noexcept {
  return static_cast<std::byte>(scrambled(n + (at >> 3)) >> (at & 7) * 8);
}

} // namespace farcall::test
