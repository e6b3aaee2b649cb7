#include <farcall/am/engine.hpp>
#include <farcall/am/worker.hpp>

namespace farcall::am {
namespace {

/// Requests of one lane served in one go before the next lane gets its turn.
constexpr unsigned turn_batch = 64;

} // namespace

bool worker::add(transport& via, const channel& c) {
  std::size_t place = 0;
  while (place < owned_.size() && owned_[place].lane != nullptr)
    ++place;
  if (place == most_lanes) return false;
  if (place == owned_.size()) owned_.emplace_back();
  owned_[place] = {&via, std::make_unique<served_lane>(*engine_, c)};
  // Release; partner: the acquire loads of the readers.
  lanes_[place].store(owned_[place].lane.get(), std::memory_order_release);
  if (places_.load(std::memory_order_relaxed) < owned_.size()) {
    places_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
  }
  return true;
}

unsigned worker::turn(bool nested) noexcept {
  const look safe(*this);
  unsigned served = 0;
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    served_lane* lane = lanes_[i].load(std::memory_order_seq_cst);
    if (lane == nullptr) continue;
    lane->progress();
    if (!(lane->has_request() || lane->blocked())) continue;
    bool held_before = false;
    if (!lane->try_hold(held_before)) continue;
    if (lane->blocked()) (void)lane->flush();
    for (unsigned n = 0; n < (nested ? 1 : turn_batch) && lane->serve_one(); ++n)
      ++served;
    // A lane that is nobody else's business stays held.
    if (shared_ && !held_before) lane->let_go();
    if (nested && served != 0) return served;
  }
  return served;
}

void worker::progress() noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (served_lane* lane = lanes_[i].load(std::memory_order_seq_cst)) lane->progress();
  }
}

void worker::watch() noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (served_lane* lane = lanes_[i].load(std::memory_order_seq_cst)) lane->watch();
  }
}

bool worker::has_work() const noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const served_lane* lane = lanes_[i].load(std::memory_order_seq_cst);
    if (lane != nullptr && lane->has_request() && !lane->is_cut() && !lane->blocked() &&
        !lane->held_by_another()) {
      return true;
    }
  }
  return false;
}

bool worker::is_blocked() const noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const served_lane* lane = lanes_[i].load(std::memory_order_seq_cst);
    if (lane != nullptr && lane->blocked() && !lane->is_cut()) return true;
  }
  return false;
}

std::size_t worker::tidy() noexcept {
  std::size_t left = 0;
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    entry& e = owned_[i];
    if (e.lane == nullptr) continue;
    bool held_before = false;
    if ((!e.lane->is_abandoned() && !e.via->is_closed(e.lane->ends())) ||
        (e.lane->blocked() && !e.lane->is_cut()) || !e.lane->try_hold(held_before)) {
      ++left;
      continue;
    }
    // Before the look at lookers_ in bury().
    lanes_[i].store(nullptr, std::memory_order_seq_cst);
    graveyard_.push_back({e.via, std::move(e.lane)});
  }
  bury();
  return left;
}

void worker::bury() noexcept {
  // Others may still find a lane held for ever, or closed, but not destroyed.
  if (graveyard_.empty() || lookers_.load(std::memory_order_seq_cst) != 0) return;
  for (const entry& e : graveyard_)
    e.via->close(e.lane->ends());
  graveyard_.clear();
}

void worker::cut(node_id peer) noexcept {
  for (const entry& e : owned_) {
    if (e.lane != nullptr && e.lane->ends().peer == peer) e.lane->abandon();
  }
}

} // namespace farcall::am
