#include <farcall/offload/copy_ring.hpp>

#include <algorithm>

namespace farcall::detail {

void copy_ring::post(std::uint64_t number, const order& what) noexcept {
  shared_order& o = orders_[number % slots];
  o.address.store(what.address, std::memory_order_relaxed);
  o.bytes.store(what.bytes, std::memory_order_relaxed);
  o.copy.store(what.copy, std::memory_order_relaxed);
  o.is_put_and_large.store((what.is_put ? 1U : 0U) | (what.is_large ? 2U : 0U),
                           std::memory_order_relaxed);
  // Release; partner: the acquire load in take(), which sees the slot's bytes, too.
  posted_.store(number + 1, std::memory_order_release);
}

std::optional<std::uint64_t> copy_ring::take_back() noexcept {
  // Relaxed: the maker has written all of it itself.
  std::uint64_t now = taken_.load(std::memory_order_relaxed);
  while (now < posted_.load(std::memory_order_relaxed)) {
    if (taken_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return now;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> copy_ring::refused() const noexcept {
  // Relaxed: seen with ended_.
  const std::uint64_t number = refused_.load(std::memory_order_relaxed);
  if (number == 0) return std::nullopt;
  return number - 1;
}

std::optional<copy_ring::taken_slot> copy_ring::take() noexcept {
  // Acquire, so that it is no newer than posted_ below; a number never comes again.
  std::uint64_t now = taken_.load(std::memory_order_acquire);
  // Acquire; partner: the release store in post().
  while (now < posted_.load(std::memory_order_acquire)) {
    const shared_order& o = orders_[now % slots];
    const std::uint64_t bits = o.is_put_and_large.load(std::memory_order_relaxed);
    const order what{
        .address = o.address.load(std::memory_order_relaxed),
        // The maker may be at fault.
        .bytes = std::min<std::uint64_t>(o.bytes.load(std::memory_order_relaxed), slot_bytes),
        .copy = o.copy.load(std::memory_order_relaxed),
        .is_put = (bits & 1U) != 0,
        .is_large = (bits & 2U) != 0};
    // Acquire-release: what was read above is of this number if nobody has taken it meanwhile.
    if (taken_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return taken_slot{now, what};
  }
  return std::nullopt;
}

void copy_ring::end(std::uint64_t number, bool is_made) noexcept {
  if (!is_made) refused_.store(number + 1, std::memory_order_relaxed);
  // Release; partner: ended_by_peer(). Only one thread of the peer is here.
  ended_.fetch_add(1, std::memory_order_release);
}

} // namespace farcall::detail
