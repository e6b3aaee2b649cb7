#include <farcall/am/engine.hpp>
#include <farcall/am/worker.hpp>

namespace farcall::am {
namespace {

/// Requests of one lane served in one go before the next lane is served.
constexpr unsigned turn_batch = 64;

} // namespace

bool worker::add(transport& via, const endpoint& c) {
  std::size_t place = 0;
  while (place < owned_.size() && owned_[place].requester != nullptr)
    ++place;
  if (place == most_lanes) return false;
  if (place == owned_.size()) owned_.emplace_back();
  owned_[place] = {&via, std::make_unique<responder>(*engine_, c)};
  // Release; partner: the acquire loads of the readers.
  lanes_[place].store(owned_[place].requester.get(), std::memory_order_release);
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
    responder* requester = lanes_[i].load(std::memory_order_seq_cst);
    if (requester == nullptr) continue;
    requester->progress();
    if (!(requester->has_request() || requester->blocked())) continue;
    bool held_before = false;
    if (!requester->try_hold(held_before)) continue;
    if (requester->blocked()) (void)requester->flush();
    for (unsigned n = 0; n < (nested ? 1 : turn_batch) && requester->serve_one(); ++n)
      ++served;
    // A lane that is nobody else's business stays held.
    if (shared_ && !held_before) requester->let_go();
    if (nested && served != 0) return served;
  }
  return served;
}

void worker::progress() noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (responder* requester = lanes_[i].load(std::memory_order_seq_cst)) requester->progress();
  }
}

void worker::arm() noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (responder* requester = lanes_[i].load(std::memory_order_seq_cst)) requester->arm();
  }
}

bool worker::has_work() const noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* requester = lanes_[i].load(std::memory_order_seq_cst);
    if (requester != nullptr && requester->has_request() && !requester->is_cut() &&
        !requester->blocked() && !requester->held_by_another()) {
      return true;
    }
  }
  return false;
}

bool worker::is_blocked() const noexcept {
  const look safe(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* requester = lanes_[i].load(std::memory_order_seq_cst);
    if (requester != nullptr && requester->blocked() && !requester->is_cut()) return true;
  }
  return false;
}

std::size_t worker::reclaim() noexcept {
  std::size_t left = 0;
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    entry& e = owned_[i];
    if (e.requester == nullptr) continue;
    bool held_before = false;
    if ((!e.requester->is_abandoned() && !e.via->is_closed(e.requester->ends())) ||
        (e.requester->blocked() && !e.requester->is_cut()) || !e.requester->try_hold(held_before)) {
      ++left;
      continue;
    }
    // Before the load of readers_ in retire().
    lanes_[i].store(nullptr, std::memory_order_seq_cst);
    retired_.push_back({e.via, std::move(e.requester)});
  }
  retire();
  return left;
}

void worker::retire() noexcept {
  // Others may still find a lane held for ever, or closed, but not destroyed.
  if (retired_.empty() || readers_.load(std::memory_order_seq_cst) != 0) return;
  for (const entry& e : retired_)
    e.via->close(e.requester->ends());
  retired_.clear();
}

void worker::cut(node_id peer) noexcept {
  for (const entry& e : owned_) {
    if (e.requester != nullptr && e.requester->ends().peer == peer) e.requester->abandon();
  }
}

} // namespace farcall::am
