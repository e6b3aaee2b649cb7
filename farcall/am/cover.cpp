#include <farcall/am/cover.hpp>

#include <chrono>
#include <utility>

namespace farcall::am {
namespace {

/// How late a request may be served that came in the very moment when a thread ceased to cover.
constexpr std::chrono::milliseconds watch_interval{1};

} // namespace

bool cover::lower() noexcept {
  if (needing_bell_.load(std::memory_order_relaxed) != 0) return false;
  lowered_.fetch_add(1, std::memory_order_seq_cst);
  wakes_->word.fetch_and(~asleep_flag, std::memory_order_seq_cst);
  // Either we see it here, or it raises the flag after we have lowered it.
  if (needing_bell_.load(std::memory_order_seq_cst) != 0) {
    ring(*wakes_);
    return false;
  }
  // Either the service thread sees the new count, or we see that it does not watch.
  if (!watched_.load(std::memory_order_seq_cst)) ring(*wakes_);
  return true;
}

void cover::raise() noexcept { wakes_->word.fetch_or(asleep_flag, std::memory_order_relaxed); }

bool cover::watch() noexcept {
  const std::uint32_t before =
      std::exchange(lowered_before_, lowered_.load(std::memory_order_seq_cst));
  if (lowered_before_ == before) {
    watched_.store(false, std::memory_order_seq_cst);
    if (lowered_.load(std::memory_order_seq_cst) == before) return false;
  }
  watched_.store(true, std::memory_order_seq_cst);
  doze_on(*wakes_, clock::now() + watch_interval);
  return true;
}

} // namespace farcall::am
