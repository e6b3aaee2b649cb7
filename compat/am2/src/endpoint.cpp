// SPDX-License-Identifier: Apache-2.0
#include "endpoint.hpp"

#include <algorithm>
#include <vector>

namespace farcall::am2 {
namespace {

std::uint64_t key_of(endpoint_name name) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(name.node)} << 32 |
         static_cast<std::uint32_t>(name.endpoint);
}

/// Subtracts `most` from the counter `from`, but at most the counter's value. Subtracts the same
/// number from `total`, the sum of such counters, and returns that number. An endpoint of an AM_SEQ
/// bundle needs no atomic read-modify-write, because one thread at a time uses it. Such an
/// instruction would wait for the stores of messages that were just sent.
std::uint32_t take_some(const am2_endpoint& ep, std::atomic<std::uint32_t>& from,
                        std::atomic<std::uint32_t>& total, std::uint32_t most) noexcept {
  std::uint32_t before = from.load(std::memory_order_relaxed);
  std::uint32_t n = std::min(before, most);
  if (!ep.bundle->is_parallel) {
    from.store(before - n, std::memory_order_relaxed);
    total.store(total.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
    return n;
  }
  while (!from.compare_exchange_weak(before, before - n, std::memory_order_relaxed))
    n = std::min(before, most);
  total.fetch_sub(n, std::memory_order_relaxed);
  return n;
}

void add_one(const am2_endpoint& ep, std::atomic<std::uint32_t>& to) noexcept {
  if (ep.bundle->is_parallel) {
    to.fetch_add(1, std::memory_order_relaxed);
  } else {
    to.store(to.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

} // namespace

bool take_slot(am2_endpoint& ep, peer& p, category c) noexcept {
  const std::uint32_t depth = ep.depth.load(std::memory_order_relaxed);
  std::uint32_t before = p.outstanding_total.load(std::memory_order_relaxed);
  if (before >= depth) return false;
  if (ep.bundle->is_parallel) {
    while (
        !p.outstanding_total.compare_exchange_weak(before, before + 1, std::memory_order_relaxed)) {
      if (before >= depth) return false;
    }
  } else {
    p.outstanding_total.store(before + 1, std::memory_order_relaxed);
  }
  add_one(ep, p.outstanding[std::size_t(c)]);
  return true;
}

void give_slots_back(const am2_endpoint& ep, peer& p, const credits& c) noexcept {
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (c[i] != 0) (void)take_some(ep, p.outstanding[i], p.outstanding_total, c[i]);
  }
}

credits take_outstanding(peer& p) noexcept {
  credits c{};
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] = p.outstanding[i].exchange(0, std::memory_order_relaxed);
    p.outstanding_total.fetch_sub(c[i], std::memory_order_relaxed);
  }
  return c;
}

void owe_slot(const am2_endpoint& ep, peer& p, category c) noexcept {
  add_one(ep, p.owed[std::size_t(c)]);
  add_one(ep, p.owed_total);
}

credits take_owed(const am2_endpoint& ep, peer& p) noexcept {
  credits c{};
  if (p.owed_total.load(std::memory_order_relaxed) == 0) return c;
  for (std::size_t i = 0; i < c.size(); ++i)
    c[i] = take_some(ep, p.owed[i], p.owed_total, message_header::max_credits);
  return c;
}

void segment_card::write(const values& v) noexcept {
  const std::uint64_t before = version.load(std::memory_order_relaxed);
  version.store(before + 1, std::memory_order_relaxed);
  // This release fence pairs with the acquire fence in read(). A reader that sees one of the new
  // values also sees the odd version, which says that a write is in progress.
  std::atomic_thread_fence(std::memory_order_release);
  address.store(v.address, std::memory_order_relaxed);
  bytes.store(v.bytes, std::memory_order_relaxed);
  tag.store(v.tag, std::memory_order_relaxed);
  // Release pairs with the acquire load in read(): a reader that sees this version also sees the
  // new values.
  version.store(before + 2, std::memory_order_release);
}

std::optional<segment_card::values> segment_card::read() const noexcept {
  const std::uint64_t before = version.load(std::memory_order_acquire);
  const values v{address.load(std::memory_order_relaxed), bytes.load(std::memory_order_relaxed),
                 tag.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (before % 2 != 0 || version.load(std::memory_order_relaxed) != before) return std::nullopt;
  return v;
}

} // namespace farcall::am2

using namespace farcall::am2;

void am2_endpoint::set_resources(std::uint32_t outstanding) {
  std::vector<int> first;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].is_in_use && peer_by_name.try_emplace(key_of(table[i].name), first.size()).second)
      first.push_back(static_cast<int>(i));
  }
  peers = std::make_unique<peer[]>(first.size());
  peer_count = first.size();
  for (std::size_t i = 0; i < first.size(); ++i) {
    peer& p = peers[i];
    p.index = first[i];
    p.name = table[static_cast<std::size_t>(first[i])].name;
    if (p.name.node != name.node) p.route = compact_message::route(name.endpoint, p.name.endpoint);
  }
  peer_at.resize(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].is_in_use) peer_at[i] = find_peer_elsewhere(table[i].name);
  }
  // Release pairs with the acquire load in is_ready(), so that the peers set above are visible.
  depth.store(outstanding, std::memory_order_release);
}

peer* am2_endpoint::find_peer_elsewhere(endpoint_name of) const noexcept {
  const auto found = peer_by_name.find(key_of(of));
  return found == peer_by_name.end() ? nullptr : &peers[found->second];
}

void am2_endpoint::write_card() noexcept {
  if (card == nullptr) return;
  const auto at = reinterpret_cast<std::uintptr_t>(segment.load(std::memory_order_relaxed));
  const std::uint64_t size = segment_bytes.load(std::memory_order_relaxed);
  card->write({size == 0 ? 0 : at, size, tag.load(std::memory_order_relaxed)});
}
