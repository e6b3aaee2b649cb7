#include <farcall/am/engine.hpp>
#include <farcall/am/worker.hpp>

#include <algorithm>

namespace farcall::am {
namespace {

/// Requests of one lane served in one go before the next lane is served.
constexpr unsigned turn_batch = 64;

/// So many lanes are all looked at in each turn. Of more, those that are busy are, and the others
/// one after the other.
constexpr std::uint32_t few_lanes = 8;
/// Turns without a request after which a lane is no longer busy.
constexpr std::uint32_t idle_after = 256;

/// Lanes may have a driver in common, which moves the bytes of all at once. `last` is the one that
/// has just done so.
void move_bytes(responder& lane, const lane_driver*& last) noexcept {
  const lane_driver* const driver = lane.ends().driver;
  if (driver == nullptr || driver == last || lane.has_request()) return;
  lane.progress();
  last = driver;
}

} // namespace

bool worker::add(transport& via, const endpoint& c) {
  std::size_t place = 0;
  while (place < owned_.size() && owned_[place].lane != nullptr)
    ++place;
  if (place == most_lanes) return false;
  if (place == owned_.size()) owned_.emplace_back();
  owned_[place] = {&via, std::make_unique<responder>(*engine_, c)};
  // Release; partner: the acquire loads of the readers.
  lanes_[place].store(owned_[place].lane.get(), std::memory_order_release);
  if (places_.load(std::memory_order_relaxed) < owned_.size()) {
    places_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
  }
  return true;
}

unsigned worker::serve(std::uint32_t place, unsigned most, const lane_driver*& moved) noexcept {
  responder* const lane = lanes_[place].load(std::memory_order_acquire);
  if (lane == nullptr) return 0;
  move_bytes(*lane, moved);
  if (lane->blocked()) [[unlikely]]
    (void)lane->flush();
  unsigned served = 0;
  while (served < most && lane->serve_one())
    ++served;
  return served;
}

/// One that has requests is busy from now on.
unsigned worker::serve_next_idle(std::uint32_t places, unsigned most,
                                 const lane_driver*& moved) noexcept {
  next_idle_ = next_idle_ + 1 < places ? next_idle_ + 1 : 0;
  const std::uint32_t place = next_idle_;
  const auto is_here = [place](const busy_lane& b) { return b.place == place; };
  if (std::any_of(busy_.begin(), busy_.begin() + busy_count_, is_here)) return 0;
  const unsigned served = serve(place, most, moved);
  if (served == 0) return 0;
  if (busy_count_ < most_busy) {
    busy_[busy_count_++] = {place};
  } else {
    next_busy_ = (next_busy_ + 1) % most_busy;
    busy_[next_busy_] = {place};
  }
  return served;
}

unsigned worker::turn(bool nested) noexcept {
  unsigned served = 0;
  const lane_driver* moved = nullptr;
  const unsigned most = nested ? 1 : turn_batch;
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  if (places <= few_lanes) {
    for (std::uint32_t i = 0; i < places; ++i) {
      served += serve(i, most, moved);
      if (nested && served != 0) return served;
    }
    return served;
  }
  // A turn costs the same however many lanes are open.
  for (unsigned n = busy_count_ == 0 ? few_lanes : 1; n-- > 0;) {
    served += serve_next_idle(places, most, moved);
    if (nested && served != 0) return served;
  }
  for (std::uint32_t i = 0; i < busy_count_;) {
    const unsigned now = serve(busy_[i].place, most, moved);
    served += now;
    // A handler that waited may have left fewer.
    if (i >= busy_count_) break;
    busy_[i].idle_turns = now == 0 ? busy_[i].idle_turns + 1 : 0;
    if (busy_[i].idle_turns > idle_after) {
      busy_[i] = busy_[--busy_count_];
    } else {
      ++i;
    }
    if (nested && served != 0) return served;
  }
  return served;
}

bool worker::refuse_one() noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* lane = lanes_[i].load(std::memory_order_acquire);
    if (lane != nullptr && lane->refuse_one()) return true;
  }
  return false;
}

void worker::progress() noexcept {
  const lane_driver* moved = nullptr;
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (responder* lane = lanes_[i].load(std::memory_order_acquire)) move_bytes(*lane, moved);
  }
}

void worker::arm() noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    if (responder* lane = lanes_[i].load(std::memory_order_acquire)) lane->arm();
  }
}

bool worker::has_work() const noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* lane = lanes_[i].load(std::memory_order_acquire);
    if (lane != nullptr && lane->has_request() && !lane->is_cut() && !lane->blocked()) {
      return true;
    }
  }
  return false;
}

bool worker::defers() const noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* lane = lanes_[i].load(std::memory_order_acquire);
    if (lane != nullptr && !lane->is_cut() && lane->defers()) return true;
  }
  return false;
}

bool worker::is_blocked() const noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* lane = lanes_[i].load(std::memory_order_acquire);
    if (lane != nullptr && lane->blocked() && !lane->is_cut()) return true;
  }
  return false;
}

std::size_t worker::reclaim() noexcept {
  std::size_t left = 0;
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    entry& e = owned_[i];
    if (e.lane == nullptr) continue;
    if ((!e.lane->is_abandoned() && !e.via->is_closed(e.lane->ends())) ||
        (e.lane->blocked() && !e.lane->is_cut()) || e.lane->is_serving()) {
      ++left;
      continue;
    }
    lanes_[i].store(nullptr, std::memory_order_relaxed);
    e.via->close(e.lane->ends());
    e.lane.reset();
  }
  return left;
}

bool worker::is_closed() const noexcept {
  return std::all_of(owned_.begin(), owned_.end(), [](const entry& e) {
    return e.lane == nullptr || e.via->is_closed(e.lane->ends());
  });
}

void worker::cut(node_id peer) noexcept {
  for (const entry& e : owned_) {
    if (e.lane != nullptr && e.lane->ends().peer == peer) e.lane->abandon();
  }
}

} // namespace farcall::am
