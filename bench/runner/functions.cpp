// SPDX-License-Identifier: Apache-2.0
#include "functions.hpp"

#include <farcall/async/later_results.hpp>
#include <farcall/async/promise.hpp>

#include <atomic>

namespace farcall::tool::offloaded {

void nothing() {}

future<void> nothing_later() {
  promise<void> p;
  p.set_value();
  return p.get_future();
}

void nothing_replied(reply<void> to) { to.set_value(); }

double halved(double value) { return value / 2; }

std::uint64_t successor(std::uint64_t value) { return value + 1; }

std::uint64_t ends_of(std::span<const std::byte> payload) {
  if (payload.empty()) return 0;
  return std::to_integer<std::uint64_t>(payload.front()) +
         std::to_integer<std::uint64_t>(payload.back());
}

std::uint64_t count(bool restart) {
  static std::atomic<std::uint64_t> calls{0};
  if (restart) calls.store(0, std::memory_order_relaxed);
  return calls.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace farcall::tool::offloaded
