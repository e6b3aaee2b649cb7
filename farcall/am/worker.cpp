// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/worker.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace farcall::am {
namespace {

/// Maximum number of requests of one lane that a worker serves before it turns to the next lane.
constexpr unsigned turn_batch = 64;

/// Number of lanes up to which a worker polls all its lanes in each iteration. A worker with more
/// lanes polls the busy ones in each iteration, and the others in turn.
constexpr std::uint32_t few_lanes = 8;
/// Number of iterations without a request after which a lane is no longer busy.
constexpr std::uint32_t idle_after = 256;

/// Maximum number of another worker's lanes that find_waiting() checks in one call.
constexpr std::uint32_t max_looked_at = 16;

/// Lets a lane's driver move bytes, unless a request has already arrived in the lane. A driver may
/// serve several lanes, and then moves the bytes of all of them. `last` is the driver that was
/// polled last in this iteration, and is not polled again.
void move_bytes(responder& lane, const lane_driver*& last) noexcept {
  const lane_driver* const driver = lane.ends().driver;
  if (driver == nullptr || driver == last || lane.has_request()) return;
  lane.progress();
  last = driver;
}

/// Ends a batch in which a handler has waited. The function is not inlined, because this is rare.
[[gnu::noinline]] void end_waited_turn(const worker& w, const lane_turn& t) noexcept {
  const bool is_blocked = t.lane->blocked();
  t.lane->end_wait();
  // Notify the workers. Another worker may have taken the lane, and may sleep until this handler
  // has ended.
  if (!w.shares_lanes() || w.owner().is_forked()) return;
  w.owner().workers().deferred_reply_was_sent(is_blocked);
  w.owner().workers().wait_has_ended();
}

} // namespace

worker::worker(engine& e, std::uint32_t index, doorbell& wakes, std::size_t max_lanes,
               bool shares_lanes)
    : engine_(&e), index_(index), wakes_(&wakes),
      counters_(e.counters()->take_worker(index, e.handlers().size())), shares_lanes_(shares_lanes),
      lanes_(max_lanes) {}

worker::~worker() { engine_->counters()->give_back(counters_.block); }

std::optional<std::uint32_t> worker::free_place() {
  std::size_t place = 0;
  while (place < entries_.size() && !entries_[place].is_free())
    ++place;
  if (place == lanes_.most()) return std::nullopt;
  if (place == entries_.size()) entries_.emplace_back();
  return static_cast<std::uint32_t>(place);
}

void worker::fill(std::uint32_t place, responder* lane) noexcept {
  lane->count_in(counters_);
  // Relaxed, because the mutex is held.
  const std::uint32_t places = places_.load(std::memory_order_relaxed);
  for (std::uint32_t i = places; i <= place; ++i)
    lanes_.make(i);
  lanes_[place].put(lane);
  lanes_here_.fetch_add(1, std::memory_order_relaxed);
  if (places <= place) {
    // Release, paired with the acquire loads of places_. A thread that reads the new number then
    // sees the lane in the new place.
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
  // End the batch with the handler that waits now, because another worker may serve the lane's next
  // request.
  t.most = 0;
  const bool is_first = !std::exchange(t.has_waited, true);
  if (is_first) t.lane->begin_wait(shares_lanes_);
  if (!shares_lanes_) return;
  // Pin the lane if another worker must not take it during this wait. Decide this at the handler's
  // first wait, and again at a later wait only if the lane was pinned in all earlier ones.
  // Otherwise another worker may have the lane now, and this thread must not read the lane's state.
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
  // Lock the mutex, because a thread that takes lanes holds it while it checks in_use_ and the pin.
  // Do not lock the mutex in a forked child, because a thread of the parent may have held it at the
  // fork.
  std::unique_lock<std::mutex> guard;
  if (!engine_->is_forked()) guard = std::unique_lock(engine_->acceptor().mutex());
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
  // After a handler that has waited, the loop ends before it reads the lane, because leave() has
  // set turn.most to 0. Another worker may have the lane by then.
  while (lane->serve_one() && ++served < turn.most && lane->has_request()) {
  }
  if (turn.outer == nullptr) [[likely]]
    counters_.running = 0;
  // If a handler has waited, do not use the lane, because another worker may have it now.
  if ((served == 0 || served == turn_batch) && !turn.has_waited) lane->count_bytes();
  end_turn(turn);
  return served;
}

/// Polls one lane, which is the next in turn among all lanes of the worker. If the lane has
/// requests, it becomes a busy lane.
unsigned worker::serve_next_idle(std::uint32_t places, unsigned most,
                                 const lane_driver*& moved) noexcept {
  next_idle_ = next_idle_ + 1 < places ? next_idle_ + 1 : 0;
  const std::uint32_t place = next_idle_;
  const auto is_here = [place](const busy_lane& b) { return b.place == place; };
  if (std::any_of(busy_.begin(), busy_.begin() + busy_count_, is_here)) return 0;
  const unsigned served = serve(place, most, moved);
  if (served == 0) return 0;
  if (busy_count_ < max_busy) {
    busy_[busy_count_++] = {place};
  } else {
    next_busy_ = (next_busy_ + 1) % max_busy;
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
  // If there are many lanes, serve the busy ones, and one of the other lanes in turn, or a few of
  // them if no lane is busy. An iteration then costs the same however many lanes are open.
  for (unsigned n = busy_count_ == 0 ? few_lanes : 1; n-- > 0;) {
    served += serve_next_idle(places, most, moved);
    if (nested && served != 0) return served;
  }
  for (std::uint32_t i = 0; i < busy_count_;) {
    const unsigned now = serve(busy_[i].place, most, moved);
    served += now;
    // Check the index again, because a waiting handler may have called turn(), which may have
    // shortened the list.
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
  // If workers share lanes, call turn(), which enters each lane before it reads the lane. The loop
  // below enters no lane, so another worker could take a lane that the loop reads.
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
  // Hold the mutex if this worker serves lanes of other homes. Such a lane may be passed to another
  // worker at any time, and its home may then destroy it. Acquire, paired with the release
  // subtractions in take() and give_back(). If this load reads 0, this thread sees that the places
  // of the former lanes are empty.
  std::unique_lock<std::mutex> guard;
  if (taken_.load(std::memory_order_acquire) != 0) {
    guard = std::unique_lock(engine_->acceptor().mutex());
  }
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < places; ++i) {
    responder* const lane = lanes_[i].lane();
    if (lane != nullptr && what(*lane)) return true;
  }
  return false;
}

// Enters each lane before polling its driver, so that no other worker takes and uses the lane at
// the same time.
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
  // Hold the mutex, because only the worker that has a lane may read the lane's state without it.
  const std::lock_guard guard(engine_->acceptor().mutex());
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
    // If a handler of this closed lane waits, perhaps on another worker, ask for a notification at
    // the end of the wait. The lane can be reclaimed only then.
    if (shares_lanes_ && lane->has_waiting()) engine_->workers().awaits_reclaim();
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
  for (std::uint32_t n = std::min(places, max_looked_at); n-- > 0;) {
    next_polled_ = next_polled_ + 1 < places ? next_polled_ + 1 : 0;
    responder* const lane = lanes_[next_polled_].lane();
    if (lane == nullptr || lane == in_use_.lane() || lane->is_cut() || lane->blocked() ||
        lane->is_pinned()) {
      continue;
    }
    // Poll the lane's driver here, because a worker moves no bytes while it runs a handler.
    lane->progress();
    if (lane->has_waited_since(now, since)) return next_polled_;
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
    // Release, paired with the acquire load in any_lane(). A thread that reads the new number there
    // sees that the place is empty.
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
  // Keep the lane if a handler has pinned it, because this handler runs on this thread and must end
  // on it.
  if (lane->is_pinned() || lane == in_use_.lane()) return;
  worker& home = *e.home;
  lanes_[place].put(nullptr);
  lanes_here_.fetch_sub(1, std::memory_order_relaxed);
  home.entries_[e.home_place].is_lent = false;
  home.fill(e.home_place, lane);
  home.lent_.fetch_sub(1, std::memory_order_relaxed);
  e = {};
  taken_.fetch_sub(1, std::memory_order_release);
  // Wake the home worker as a sender would, because it may have fallen asleep while another worker
  // had its lane.
  notify_if_armed(home.wakes());
  engine_->workers().sharing().is_awake(home);
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
  const std::lock_guard guard(engine_->acceptor().mutex());
  for (const entry& e : entries_) {
    if (e.home != nullptr) to.push_back(e.home->wakes_);
  }
}

} // namespace farcall::am
