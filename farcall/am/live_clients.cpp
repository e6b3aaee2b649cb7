#include <farcall/am/live_clients.hpp>

#include <array>
#include <atomic>

namespace farcall::am::live_clients {
namespace {

// Relaxed throughout: whoever asks has the address from the event, and what the client is has been
// seen by whoever bound the event to it.

/// Null where there is none. Without a lock, so that a child of a fork can use it.
constinit std::array<std::atomic<const client*>, 64> entries{};
/// Of those that found no place; while there are any, all are taken to be there.
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
