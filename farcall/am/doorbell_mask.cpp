#include <farcall/am/doorbell_mask.hpp>

#include <chrono>
#include <utility>

namespace farcall::am {
namespace {

/// How late a request may be served that came in the very moment when a thread unmasked the
/// doorbell.
constexpr std::chrono::milliseconds watch_interval{1};

} // namespace

bool doorbell_mask::mask() noexcept {
  if (needing_doorbell_.load(std::memory_order_relaxed) != 0) return false;
  masked_.fetch_add(1, std::memory_order_seq_cst);
  wakes_->word.fetch_and(~armed_flag, std::memory_order_seq_cst);
  // Either we see it here, or it arms the doorbell after we have disarmed it.
  if (needing_doorbell_.load(std::memory_order_seq_cst) != 0) {
    notify(*wakes_);
    return false;
  }
  // Either the service thread sees the new count, or we see that it does not poll.
  if (!watched_.load(std::memory_order_seq_cst)) notify(*wakes_);
  return true;
}

void doorbell_mask::unmask() noexcept {
  wakes_->word.fetch_or(armed_flag, std::memory_order_relaxed);
}

bool doorbell_mask::nap() noexcept {
  const std::uint32_t before =
      std::exchange(masked_before_, masked_.load(std::memory_order_seq_cst));
  if (masked_before_ == before) {
    watched_.store(false, std::memory_order_seq_cst);
    if (masked_.load(std::memory_order_seq_cst) == before) return false;
  }
  watched_.store(true, std::memory_order_seq_cst);
  doze_on(*wakes_, clock::now() + watch_interval);
  return true;
}

} // namespace farcall::am
