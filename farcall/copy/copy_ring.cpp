// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/copy_ring.hpp>

#include <algorithm>

namespace farcall::detail {

void copy_ring::post(std::uint64_t number, const order& what) noexcept {
  shared_order& o = orders_[number % slots];
  o.address.store(what.address, std::memory_order_relaxed);
  o.bytes.store(what.bytes, std::memory_order_relaxed);
  o.copy.store(what.copy, std::memory_order_relaxed);
  o.is_put_and_large.store((what.is_put ? 1U : 0U) | (what.is_large ? 2U : 0U),
                           std::memory_order_relaxed);
  // Release, paired with the acquire load in take(), so that a peer that sees the number also sees
  // the slot's bytes.
  posted_.store(number + 1, std::memory_order_release);
}

std::optional<std::uint64_t> copy_ring::take_back() noexcept {
  // Relaxed, because the maker calls this function, and has itself written all data of the slot.
  std::uint64_t now = taken_.load(std::memory_order_relaxed);
  while (now < posted_.load(std::memory_order_relaxed)) {
    if (taken_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return now;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> copy_ring::refused() const noexcept {
  // Relaxed: read after ended_.
  const std::uint64_t number = refused_.load(std::memory_order_relaxed);
  if (number == 0) return std::nullopt;
  return number - 1;
}

std::optional<copy_ring::taken_slot> copy_ring::take() noexcept {
  // Acquire, so that posted_ is loaded after taken_, and is therefore not older than taken_.
  // Numbers are never reused.
  std::uint64_t now = taken_.load(std::memory_order_acquire);
  // Acquire, paired with the release store in post(), so that the slot's data are visible.
  while (now < posted_.load(std::memory_order_acquire)) {
    const shared_order& o = orders_[now % slots];
    const std::uint64_t bits = o.is_put_and_large.load(std::memory_order_relaxed);
    const order what{
        .address = o.address.load(std::memory_order_relaxed),
        // Limit the length, because the maker's data is untrusted.
        .bytes = std::min<std::uint64_t>(o.bytes.load(std::memory_order_relaxed), slot_bytes),
        .copy = o.copy.load(std::memory_order_relaxed),
        .is_put = (bits & 1U) != 0,
        .is_large = (bits & 2U) != 0};
    // Acquire-release. If the exchange succeeds, the values that were loaded above belong to the
    // slot with this number.
    if (taken_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return taken_slot{now, what};
  }
  return std::nullopt;
}

void copy_ring::end(std::uint64_t number, bool is_made) noexcept {
  if (!is_made) refused_.store(number + 1, std::memory_order_relaxed);
  // Release, paired with the acquire load in ended_by_peer(), so that the maker sees the peer's
  // work on the slot. Only one thread of the peer serves the ring at a time.
  ended_.fetch_add(1, std::memory_order_release);
}

} // namespace farcall::detail
