// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/chunk_offer.hpp>

namespace farcall::detail {
namespace {

constexpr std::uint64_t copy_of(std::uint64_t word) noexcept { return word >> 32; }
constexpr std::uint64_t chunk_of(std::uint64_t word) noexcept { return word & UINT32_MAX; }

} // namespace

void chunk_offer::open(const offered_copy& c) noexcept {
  const std::uint64_t number = (copy_of(next_.load(std::memory_order_relaxed)) + 1) & UINT32_MAX;
  next_.store(number << 32 | none_left, std::memory_order_relaxed);
  // Release, paired with the acquire fence in take_as_peer(). A peer that reads one of the values
  // stored below therefore sees that next_, stored above, has ended the previous copy.
  std::atomic_thread_fence(std::memory_order_release);
  ours_.store(c.ours, std::memory_order_relaxed);
  theirs_.store(c.theirs, std::memory_order_relaxed);
  bytes_.store(c.bytes, std::memory_order_relaxed);
  chunk_bytes_.store(c.chunk_bytes, std::memory_order_relaxed);
  is_put_.store(c.is_put, std::memory_order_relaxed);
  ended_.store(0, std::memory_order_relaxed);
  refused_.store(0, std::memory_order_relaxed);
  // Release, paired with the acquire load in take_as_peer(), so that a peer that sees the new
  // number also sees the values stored above.
  next_.store(number << 32, std::memory_order_release);
}

std::optional<std::uint64_t> chunk_offer::take(const offered_copy& c) noexcept {
  // Relaxed, because the counter only hands out the chunks' numbers.
  std::uint64_t now = next_.load(std::memory_order_relaxed);
  while (chunk_of(now) < c.chunks()) {
    if (next_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return chunk_of(now);
  }
  return std::nullopt;
}

std::uint64_t chunk_offer::close(const offered_copy& c) noexcept {
  const std::uint64_t before = next_.fetch_or(none_left, std::memory_order_relaxed);
  return std::min(chunk_of(before), c.chunks());
}

std::optional<std::uint64_t> chunk_offer::refused() const noexcept {
  // Relaxed: read after ended_.
  const std::uint64_t number = refused_.load(std::memory_order_relaxed);
  if (number == 0) return std::nullopt;
  return number - 1;
}

std::optional<std::uint64_t> chunk_offer::take_as_peer(offered_copy& c) noexcept {
  // Acquire, paired with the release store in open(), so that the values loaded below are at least
  // as new as the number.
  std::uint64_t now = next_.load(std::memory_order_acquire);
  for (;;) {
    c = {ours_.load(std::memory_order_relaxed), theirs_.load(std::memory_order_relaxed),
         bytes_.load(std::memory_order_relaxed),
         // Make the length at least 1, because the maker's data is untrusted, and a length of 0
         // would be a division by zero.
         std::max<std::uint64_t>(chunk_bytes_.load(std::memory_order_relaxed), 1),
         is_put_.load(std::memory_order_relaxed)};
    // Acquire, paired with the release fence in open(). If the maker has meanwhile opened a later
    // copy, and a value loaded above belongs to that copy, the exchange below fails.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (chunk_of(now) >= c.chunks()) return std::nullopt;
    if (next_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return chunk_of(now);
  }
}

} // namespace farcall::detail
