// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/live_clients.hpp>

#include <array>
#include <atomic>

namespace farcall::am::live_clients {
namespace {

// All accesses to the table are relaxed. A caller of has() got the client's address from an event,
// and therefore sees all writes of the thread that bound the event to the client. These include the
// client's entry in the table.

/// Live clients, with null in free places. The table needs no lock, so that a forked child can use
/// it.
constinit std::array<std::atomic<const client*>, 64> entries{};
/// Number of clients for which the table had no free place. While the number is not 0, has()
/// returns true for every client.
constinit std::atomic<unsigned> others{0};

} // namespace

void add(const client& c) noexcept {
  for (auto& entry : entries) {
    const client* expected = nullptr;
    if (entry.compare_exchange_strong(expected, &c, std::memory_order_relaxed)) return;
  }
  others.fetch_add(1, std::memory_order_relaxed);
}

void remove(const client& c) noexcept {
  for (auto& entry : entries) {
    const client* expected = &c;
    if (entry.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed)) return;
  }
  others.fetch_sub(1, std::memory_order_relaxed);
}

bool has(const client* c) noexcept {
  if (c == nullptr) return false;
  for (const auto& entry : entries) {
    if (entry.load(std::memory_order_relaxed) == c) return true;
  }
  return others.load(std::memory_order_relaxed) != 0;
}

} // namespace farcall::am::live_clients
