#include <farcall/base/process_exit.hpp>

#include <atomic>
#include <cstdlib>

namespace farcall {
namespace {

/// The C library keeps memory for each handler.
constexpr unsigned most_handlers = 32;

constinit std::atomic<unsigned> handlers{0};
// Relaxed: set and read by the thread in exit().
constinit std::atomic<bool> exiting{false};

} // namespace

void watch_exit() noexcept {
  // Relaxed: a count.
  if (handlers.load(std::memory_order_relaxed) >= most_handlers) return;
  if (handlers.fetch_add(1, std::memory_order_relaxed) >= most_handlers) return;
  static_cast<void>(std::atexit([] { exiting.store(true, std::memory_order_relaxed); }));
}

bool is_exiting() noexcept { return exiting.load(std::memory_order_relaxed); }

} // namespace farcall
