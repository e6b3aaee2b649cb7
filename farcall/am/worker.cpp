#include <farcall/am/engine.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/worker.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace farcall::am {
namespace {

/// Requests of one lane served in one go before the next lane is served.
constexpr unsigned turn_batch = 64;

/// So many lanes are all looked at in each turn. Of more, those that are busy are, and the others
/// one after the other.
constexpr std::uint32_t few_lanes = 8;
/// Turns without a request after which a lane is no longer busy.
constexpr std::uint32_t idle_after = 256;

/// Lanes of another worker's that are looked at in one go.
constexpr std::uint32_t most_looked_at = 16;

/// Lanes may have a driver in common, which moves the bytes of all at once. `last` is the one that
/// has just done so.
void move_bytes(responder& lane, const lane_driver*& last) noexcept {
  const lane_driver* const driver = lane.ends().driver;
  if (driver == nullptr || driver == last || lane.has_request()) return;
  lane.progress();
  last = driver;
}

/// A handler has waited in this turn. Not inline: turns seldom end so.
[[gnu::noinline]] void end_waited_turn(const worker& w, const lane_turn& t) noexcept {
  const bool is_blocked = t.lane->blocked();
  t.lane->end_wait();
  // Another worker may have the lane by now, and sleep.
  if (!w.shares_lanes() || w.owner().is_forked()) return;
  w.owner().deferred_reply_was_sent(is_blocked);
  w.owner().wait_has_ended();
}

} // namespace

worker::worker(engine& e, std::uint32_t index, doorbell& wakes, std::size_t most_lanes,
               bool shares_lanes)
    : engine_(&e), index_(index), wakes_(&wakes),
      counters_(e.counters()->take_worker(index, e.handler_keys())), shares_lanes_(shares_lanes),
      lanes_(most_lanes) {}

worker::~worker() { engine_->counters()->give_back(counters_.block); }

std::optional<std::uint32_t> worker::free_place() {
  std::size_t place = 0;
  while (place < entries_.size() && !entries_[place].is_free())
    ++place;
  if (place == lanes_.size()) return std::nullopt;
  if (place == entries_.size()) entries_.emplace_back();
  return static_cast<std::uint32_t>(place);
}

void worker::fill(std::uint32_t place, responder* lane) noexcept {
  lane->count_in(counters_);
  lanes_[place].put(lane);
  lanes_here_.fetch_add(1, std::memory_order_relaxed);
  if (places_.load(std::memory_order_relaxed) <= place) {
    // Release; partner: the acquire loads of the readers.
    places_.store(place + 1, std::memory_order_release);
  }
}

bool worker::add(transport& via, const endpoint& c) {
  const std::optional<std::uint32_t> place = free_place();
  if (!place) return false;
  entry& e = entries_[*place];
  e = {};
  e.lane = std::make_unique<responder>(*engine_, c);
  e.via = &via;
  fill(*place, e.lane.get());
  return true;
}

// ---- turns --------------------------------------------------------------------------------------

void worker::begin_turn(lane_turn& t) noexcept { t.outer = std::exchange(this_stack.turn, &t); }

void worker::end_turn(lane_turn& t) noexcept {
  this_stack.turn = t.outer;
  if (t.has_waited) [[unlikely]]
    end_waited_turn(*this, t);
  in_use_.leave();
}

void worker::leave(lane_turn& t) noexcept {
  // The next request of the lane may be another worker's.
  t.most = 0;
  const bool is_first = !std::exchange(t.has_waited, true);
  if (is_first) t.lane->begin_wait(shares_lanes_);
  if (!shares_lanes_) return;
  // Once it could be taken, what the lane is at is the business of whoever has it.
  if (is_first || t.is_pinned) {
    t.is_pinned = !t.lane->can_be_taken_while_waiting();
    if (t.is_pinned) t.lane->pin();
  }
  in_use_.leave();
}

void worker::come_back(lane_turn& t) noexcept {
  if (!shares_lanes_) return;
  if (!t.is_pinned) {
    in_use_.come_back(t.lane);
    return;
  }
  // Who takes a lane looks at both with the mutex, which in a child of a fork a thread of the
  // parent may have.
  std::unique_lock<std::mutex> guard;
  if (!engine_->is_forked()) guard = std::unique_lock(engine_->accept_mutex_);
  in_use_.come_back(t.lane);
  t.lane->unpin();
}

worker::pause::pause() noexcept : turn_(this_stack.turn) {
  if (turn_ != nullptr) turn_->by->leave(*turn_);
}

worker::pause::~pause() {
  if (turn_ != nullptr) turn_->by->come_back(*turn_);
}

unsigned worker::serve(std::uint32_t place, unsigned most, const lane_driver*& moved) noexcept {
  responder* const lane = in_use_.enter(lanes_[place]);
  if (lane == nullptr) return 0;
  move_bytes(*lane, moved);
  if (lane->blocked()) [[unlikely]]
    (void)lane->flush();
  lane_turn turn{this, lane, most};
  begin_turn(turn);
  unsigned served = 0;
  // Behind a handler that has waited, the lane may be another worker's: `most` is 0 then.
  while (lane->serve_one() && ++served < turn.most && lane->has_request()) {
  }
  if (turn.outer == nullptr) [[likely]]
    counters_.running = 0;
  // Behind a handler that has waited, the lane may be another worker's.
  if ((served == 0 || served == turn_batch) && !turn.has_waited) lane->count_bytes();
  end_turn(turn);
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

unsigned worker::turn_where_requests_are() noexcept {
  // A lane that is looked at may be another worker's meanwhile.
  if (shares_lanes_) return has_work() ? turn(false) : 0;
  unsigned served = 0;
  const lane_driver* moved = nullptr;
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* const lane = lanes_[i].lane();
    if (lane != nullptr && lane->has_request()) served += serve(i, turn_batch, moved);
  }
  return served;
}

bool worker::refuse_one() noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* const lane = in_use_.enter(lanes_[i]);
    if (lane == nullptr) continue;
    lane_turn turn{this, lane, 1};
    begin_turn(turn);
    const bool has_refused = lane->refuse_one();
    end_turn(turn);
    if (has_refused) return true;
  }
  return false;
}

// ---- all lanes ----------------------------------------------------------------------------------

template <class What>
bool worker::any_lane(const What& what) const noexcept {
  // One that was taken may go on to another worker, and its home destroy it. Acquire; partner: the
  // release in take(): whoever sees that the last one is gone finds its place empty.
  std::unique_lock<std::mutex> guard;
  if (taken_.load(std::memory_order_acquire) != 0) {
    guard = std::unique_lock(engine_->accept_mutex_);
  }
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* const lane = lanes_[i].lane();
    if (lane != nullptr && what(*lane)) return true;
  }
  return false;
}

// Nobody takes the lane that it is in, and so uses it at the same time.
void worker::progress() noexcept {
  const lane_driver* moved = nullptr;
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* const lane = in_use_.enter(lanes_[i]);
    if (lane == nullptr) continue;
    move_bytes(*lane, moved);
    in_use_.leave();
  }
}

void worker::arm() noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* const lane = in_use_.enter(lanes_[i]);
    if (lane == nullptr) continue;
    lane->arm();
    in_use_.leave();
  }
}

bool worker::has_work() const noexcept {
  return any_lane([](const responder& lane) {
    return lane.has_request() && !lane.is_cut() && !lane.blocked();
  });
}

bool worker::defers() const noexcept {
  // What it looks at belongs to who has the lane.
  const std::lock_guard guard(engine_->accept_mutex_);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    const responder* const lane = lanes_[i].lane();
    if (lane != nullptr && !lane->is_cut() && lane->defers()) return true;
  }
  return false;
}

bool worker::is_blocked() const noexcept {
  return any_lane([](const responder& lane) { return lane.blocked() && !lane.is_cut(); });
}

std::size_t worker::reclaim() noexcept {
  std::size_t left = 0;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    entry& e = entries_[i];
    if (e.is_free()) continue;
    ++left;
    if (e.is_lent) continue;
    responder* const lane = lanes_[i].lane();
    transport& via = e.home == nullptr ? *e.via : *e.home->entries_[e.home_place].via;
    if (!lane->is_abandoned() && !via.is_closed(lane->ends())) continue;
    if (e.home != nullptr) {
      give_back(i);
      continue;
    }
    // Another worker may be the one to end the wait.
    if (shares_lanes_ && lane->has_waiting()) engine_->awaits_reclaim();
    if ((lane->blocked() && !lane->is_cut()) || lane->has_waiting() || in_use_.lane() == lane) {
      continue;
    }
    lanes_[i].put(nullptr);
    lanes_here_.fetch_sub(1, std::memory_order_relaxed);
    via.close(lane->ends());
    e = {};
    --left;
  }
  return left;
}

bool worker::is_closed() const noexcept {
  return std::all_of(entries_.begin(), entries_.end(), [](const entry& e) {
    return e.lane == nullptr || e.via->is_closed(e.lane->ends());
  });
}

void worker::cut(node_id peer) noexcept {
  for (const entry& e : entries_) {
    if (e.lane != nullptr && e.lane->ends().peer == peer) e.lane->abandon();
  }
}

// ---- lanes that are shared ----------------------------------------------------------------------

bool worker::is_overdue(asker who) noexcept {
  const std::uint64_t now = idle_turns_.load(std::memory_order_relaxed);
  return std::exchange(idle_turns_seen_[static_cast<std::size_t>(who)], now) == now;
}

std::optional<std::uint32_t> worker::find_waiting(time_point now, time_point since) noexcept {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t n = std::min(places, most_looked_at); n-- > 0;) {
    next_looked_at_ = next_looked_at_ + 1 < places ? next_looked_at_ + 1 : 0;
    responder* const lane = lanes_[next_looked_at_].lane();
    if (lane == nullptr || lane == in_use_.lane() || lane->is_cut() || lane->blocked() ||
        lane->is_pinned()) {
      continue;
    }
    // Its worker does not move the bytes while it runs a handler.
    lane->progress();
    if (lane->has_waited_since(now, since)) return next_looked_at_;
  }
  return std::nullopt;
}

bool worker::take(worker& from, std::uint32_t place) noexcept {
  entry& e = from.entries_[place];
  worker& home = e.home != nullptr ? *e.home : from;
  const std::uint32_t home_place = e.home != nullptr ? e.home_place : place;
  std::optional<std::uint32_t> to;
  if (&home == this) {
    to = home_place;
  } else {
    try {
      to = free_place();
    } catch (const std::bad_alloc&) {
    }
  }
  if (!to) return false;
  responder* const lane = from.lanes_[place].take(from.in_use_);
  if (lane == nullptr) return false;
  if (lane->is_pinned()) {
    from.lanes_[place].put(lane);
    return false;
  }
  from.lanes_here_.fetch_sub(1, std::memory_order_relaxed);
  if (&home != &from) {
    e = {};
    // Release; partner: the acquire load in any_lane().
    from.taken_.fetch_sub(1, std::memory_order_release);
  }
  if (&home == this) {
    entries_[*to].is_lent = false;
    lent_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    if (&home == &from) {
      e.is_lent = true;
      home.lent_.fetch_add(1, std::memory_order_relaxed);
    }
    entry& here = entries_[*to];
    here = {};
    here.home = &home;
    here.home_place = home_place;
    here.home_was_idle = home.idle_turns_.load(std::memory_order_relaxed);
    taken_.fetch_add(1, std::memory_order_relaxed);
  }
  fill(*to, lane);
  return true;
}

void worker::give_back(std::uint32_t place) noexcept {
  entry& e = entries_[place];
  responder* const lane = lanes_[place].lane();
  // The handler that pins it is here, and ends here.
  if (lane->is_pinned() || lane == in_use_.lane()) return;
  worker& home = *e.home;
  lanes_[place].put(nullptr);
  lanes_here_.fetch_sub(1, std::memory_order_relaxed);
  home.entries_[e.home_place].is_lent = false;
  home.fill(e.home_place, lane);
  home.lent_.fetch_sub(1, std::memory_order_relaxed);
  e = {};
  taken_.fetch_sub(1, std::memory_order_release);
  // As after a request: it may have gone to sleep without the lane.
  notify_if_armed(home.wakes());
  engine_->sharing_.is_awake(home);
}

void worker::give_back(bool all) noexcept {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const entry& e = entries_[i];
    if (e.home == nullptr) continue;
    if (all || e.home->is_asleep() ||
        e.home->idle_turns_.load(std::memory_order_relaxed) != e.home_was_idle) {
      give_back(i);
    }
  }
}

void worker::add_doorbells(std::vector<doorbell*>& to) const {
  to.push_back(wakes_);
  if (taken_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard guard(engine_->accept_mutex_);
  for (const entry& e : entries_) {
    if (e.home != nullptr) to.push_back(e.home->wakes_);
  }
}

} // namespace farcall::am
