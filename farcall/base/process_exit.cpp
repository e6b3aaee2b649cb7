// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/process_exit.hpp>

#include <atomic>
#include <cstdlib>

namespace farcall {
namespace {

/// Maximum number of exit handlers that are registered, because the C library keeps memory for
/// each.
constexpr unsigned max_handlers = 32;

constinit std::atomic<unsigned> handlers{0};
// Relaxed, because the thread that calls exit() both sets and reads the flag.
constinit std::atomic<bool> exiting{false};

} // namespace

void watch_exit() noexcept {
  // Relaxed: only a count.
  if (handlers.load(std::memory_order_relaxed) >= max_handlers) return;
  if (handlers.fetch_add(1, std::memory_order_relaxed) >= max_handlers) return;
  static_cast<void>(std::atexit([] { exiting.store(true, std::memory_order_relaxed); }));
}

bool is_exiting() noexcept { return exiting.load(std::memory_order_relaxed); }

} // namespace farcall
