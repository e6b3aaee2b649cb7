#pragma once

#include <farcall/base/clock.hpp>
#include <tests/sanitizer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

/// What tests of several layers need.
namespace farcall::test {

/// How long a test waits for what should happen at once, before it gives up.
inline constexpr std::chrono::seconds wait_limit{60};

/// Spins, and gives the core away now and then: tests run on machines with few of them.
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

/// Throws and catches an Error once. UndefinedBehaviorSanitizer looks at the memory of a type that
/// it has not seen before through a pipe, which a test without descriptors cannot give it.
template <class Error>
void show_to_sanitizer() {
  try {
    throw Error("shown");
  } catch (const Error&) {
  }
}

/// Waits until `done()` is true; false when that takes longer than `wait_limit`.
template <class Condition>
[[nodiscard]] bool eventually(Condition done) {
  const time_point deadline = clock::now() + wait_limit;
  for (spinner s; !done(); s.pause()) {
    if (clock::now() > deadline) return false;
  }
  return true;
}

/// A number that looks random and depends on `n` only (splitmix64).
[[nodiscard]] constexpr std::uint64_t scrambled(std::uint64_t n) noexcept {
  n += 0x9E3779B97F4A7C15;
  n = (n ^ n >> 30) * 0xBF58476D1CE4E5B9;
  n = (n ^ n >> 27) * 0x94D049BB133111EB;
  return n ^ n >> 31;
}

/// Byte `at` of the content that belongs to number `n`.
[[nodiscard]] constexpr std::byte content(std::uint64_t n, std::size_t at) noexcept {
  return static_cast<std::byte>(scrambled(n + (at >> 3)) >> (at & 7) * 8);
}

} // namespace farcall::test
