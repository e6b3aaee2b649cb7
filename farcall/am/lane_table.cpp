// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/lane_table.hpp>
#include <farcall/am/lanes_left_behind.hpp>
#include <farcall/am/peer_table.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/process_exit.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <pthread.h>

namespace farcall::am {

lane_table::lane_table(engine& owner, const engine_options& options, peer_table& peers,
                       const doorbell_layout& doorbells, doorbell& local) noexcept
    : owner_(owner), serial_(owner.serial_), options_(options), peers_(peers),
      doorbells_(doorbells), local_(local), next_doorbell_(doorbells.first_caller()) {}

lane_table::~lane_table() {
  lanes_left_behind& left = lanes_left_behind::instance();
  const std::lock_guard guard(left.mutex);
  left.reap();
  std::move(failed_.begin(), failed_.end(), std::back_inserter(lanes_));
  for (auto& l : lanes_) {
    if (l->leave_engine() != 0) left.all.push_back({options_.counters, std::move(l)});
  }
}

// ---- lanes of threads ---------------------------------------------------------------------------

/// The calling thread's sets of lanes in all engines. The destructor gives the sets back when the
/// thread ends. The object is stored under a pthread key, because destructors of thread-local
/// objects, and on the main thread of static objects, may still make calls. The value of a pthread
/// key is destroyed after thread-local objects, and is not destroyed at exit().
struct lane_table::sets_of_thread {
  struct held {
    std::uint64_t serial;
    std::weak_ptr<engine> owner;
    thread_lanes* own;
  };
  std::vector<held> all;

  sets_of_thread() = default;
  sets_of_thread(const sets_of_thread&) = delete;
  sets_of_thread& operator=(const sets_of_thread&) = delete;
  ~sets_of_thread() {
    for (const held& h : all) {
      const auto owner = h.owner.lock();
      if (owner && !owner->is_forked()) owner->lanes().give_back(*h.own);
    }
    client::cached_ = {};
  }

  static sets_of_thread& mine() {
    static const pthread_key_t key = [] {
      pthread_key_t made{};
      const int reason =
          ::pthread_key_create(&made, [](void* own) { delete static_cast<sets_of_thread*>(own); });
      if (reason != 0) throw_system_error("making a key for the lanes of threads", reason);
      return made;
    }();
    if (void* const own = ::pthread_getspecific(key)) return *static_cast<sets_of_thread*>(own);
    auto made = std::make_unique<sets_of_thread>();
    if (const int reason = ::pthread_setspecific(key, made.get()); reason != 0) {
      throw_system_error("keeping the lanes of a thread", reason);
    }
    return *made.release();
  }
};

thread_lanes& lane_table::own() {
  if (thread_lanes* const known = find_own()) return *known;
  auto& mine = sets_of_thread::mine().all;
  std::erase_if(mine, [](const sets_of_thread::held& h) { return h.owner.expired(); });
  auto at = std::find_if(mine.begin(), mine.end(),
                         [&](const sets_of_thread::held& h) { return h.serial == serial_; });
  if (at == mine.end()) {
    // Register the exit handler here, where a static job object is fully constructed, so that the
    // handler runs before the object's destructor.
    watch_exit();
    // Reserve memory before taking the set, because the set must not be lost when memory runs out.
    mine.reserve(mine.size() + 1);
    thread_lanes& taken = take_set();
    at = mine.insert(mine.end(), {serial_, owner_.weak_from_this(), &taken});
  }
  client::cached_ = {serial_, at->own};
  return *at->own;
}

thread_counters* lane_table::counters_of_thread() noexcept {
  try {
    return &own().counters;
  } catch (const std::exception&) {
    // A thread that gets no doorbell or no memory works without counters.
    return nullptr;
  }
}

thread_lanes& lane_table::take_set() {
  const std::lock_guard guard(mutex_);
  const bool is_worker = worker::current() != nullptr && worker::current()->is_part_of(owner_);
  const auto idle = std::find_if(idle_sets_.begin(), idle_sets_.end(), [&](const thread_lanes* p) {
    if (is_worker) return p->doorbell == worker::current()->index();
    return p->doorbell >= doorbells_.first_caller() && p->doorbell < doorbells_.first_lane();
  });
  if (idle != idle_sets_.end()) {
    thread_lanes& p = **idle;
    idle_sets_.erase(idle);
    p.threads = 1;
    return p;
  }
  std::uint32_t doorbell_index = 0;
  if (is_worker) {
    doorbell_index = worker::current()->index();
  } else if (next_doorbell_ < doorbells_.first_lane()) {
    doorbell_index = next_doorbell_++;
  } else {
    // Share only sets of calling threads, because the sleep of a worker must not depend on other
    // threads.
    thread_lanes* fewest = nullptr;
    for (const auto& p : sets_) {
      if (p->doorbell < doorbells_.first_caller()) continue;
      if (fewest == nullptr || p->threads < fewest->threads) fewest = p.get();
    }
    if (fewest == nullptr) throw error("this node has no doorbells for threads that call");
    ++fewest->threads;
    return *fewest;
  }
  sets_.push_back(std::make_unique<thread_lanes>(doorbell_index, peers_.nodes(),
                                                 options_.counters->take_thread()));
  sets_made_.fetch_add(1, std::memory_order_seq_cst);
  // Notify the threads that sleep until a reply arrives in any lane, because they must now also
  // sleep on the doorbell of the new set.
  notify_if_armed(local_);
  return *sets_.back();
}

void lane_table::give_back(thread_lanes& p) noexcept {
  const std::lock_guard guard(mutex_);
  // Give up the ownership of the guards of all lanes, not only of the set's lanes, because the
  // ending thread may own the guard of any lane that it has used.
  for (const auto* const lanes : {&lanes_, &failed_}) {
    for (const auto& l : *lanes)
      l->guard().disown();
  }
  if (--p.threads == 0) idle_sets_.push_back(&p);
}

void lane_table::drop_lost(thread_lanes& own, node_id node) noexcept {
  requester* lost = nullptr;
  {
    const std::lock_guard guard(mutex_);
    requester* const now = own.find(node);
    if (now == nullptr || !now->is_lost()) return;
    own.remove(node);
    // Retire the lost lane if no other thread uses it. Otherwise the lane stays until the engine
    // ends.
    if (--now->thread_uses == 0 && own.threads == 1) lost = now;
  }
  if (lost != nullptr) retire(*lost);
}

requester& lane_table::open_own(node_id node, time_point deadline) {
  (void)peers_.reach(node, deadline);
  thread_lanes& mine = own();
  // Drop a lane that has lost its connection. All calls of the lane have failed, but as far as is
  // known, the node is alive.
  drop_lost(mine, node);
  requester* l = mine.find(node);
  if (l != nullptr) return *l;
  {
    const std::lock_guard guard(mutex_);
    mine.reserve(node);
  }
  bool is_fresh = false;
  l = take_idle(node);
  if (l == nullptr) {
    try {
      l = &open_on(node, mine.doorbell, false, deadline);
      is_fresh = true;
    } catch (const no_lane_left&) {
      // Share no lanes with a worker of this node, because a worker only receives replies of lanes
      // that notify its own doorbell.
      if (worker::current() == nullptr || !worker::current()->is_part_of(owner_)) l = share(node);
      if (l == nullptr) throw;
    }
  }
  requester* used = l;
  {
    const std::lock_guard guard(mutex_);
    // Use the lane that another thread, which shares this set of lanes, may have opened to the node
    // in the meantime.
    if (requester* const now = mine.find(node)) used = now;
    if (used == l) {
      if (is_fresh) l->thread_uses = 1;
      if (mine.threads == 1) mine.drop_failed();
      mine.set(node, l);
    } else if (!is_fresh) {
      --l->thread_uses;
    }
    // Avoid the lane if the node was marked as refusing calls while the lane was opened.
    if (peers_.is_refused(node)) used->avoid();
  }
  if (used != l && is_fresh) retire(*l);
  return *used;
}

requester* lane_table::take_idle(node_id node) noexcept {
  const std::lock_guard guard(mutex_);
  for (thread_lanes* p : idle_sets_) {
    requester* const l = p->find(node);
    if (l == nullptr || l->is_lost()) continue;
    p->remove(node);
    return l;
  }
  return nullptr;
}

bool lane_table::retire_idle(node_id node) noexcept {
  while (requester* const l = take_idle(node)) {
    bool is_last = false;
    {
      const std::lock_guard guard(mutex_);
      is_last = --l->thread_uses == 0;
    }
    if (!is_last) continue;
    retire(*l);
    return true;
  }
  return false;
}

requester* lane_table::share(node_id node) noexcept {
  const std::lock_guard guard(mutex_);
  requester* fewest = nullptr;
  for (const auto& l : lanes_) {
    if (l->peer() != node || l->thread_uses == 0 || l->is_lost()) continue;
    if (fewest == nullptr || l->thread_uses < fewest->thread_uses) fewest = l.get();
  }
  if (fewest != nullptr) ++fewest->thread_uses;
  return fewest;
}

requester& lane_table::open(node_id node, time_point deadline) {
  for (;;) {
    try {
      return open_on(node, own().doorbell, !options_.has_one_worker, deadline);
    } catch (const no_lane_left&) {
      // If the node has no lane left, close an idle lane of a thread that has ended. A separate
      // lane needs the place more than a later thread would, because that thread can share another
      // lane.
      if (!retire_idle(node)) throw;
    }
  }
}

requester& lane_table::open_for_stops(node_id node) {
  // Any doorbell will do, because the lane receives no replies.
  return open_on(node, doorbells_.acceptor(), true, clock::now());
}

requester& lane_table::open_on(node_id node, std::uint32_t doorbell_index, bool own_worker,
                               time_point deadline) {
  run_continuations(reap());
  const std::uint32_t workers = peers_.reach(node, deadline).workers;
  const std::uint32_t target_worker =
      own_worker
          ? doorbells_.first_lane() +
                next_lane_doorbell_.fetch_add(1, std::memory_order_relaxed) % doorbells_.lanes()
          : next_worker_.fetch_add(1, std::memory_order_relaxed) % workers;
  const endpoint c =
      owner_.waiter().wait_for_lane(node, {doorbell_index, target_worker, own_worker}, deadline);
  const std::lock_guard guard(mutex_);
  // Reserve space for all lanes in failed_, because end_calls_to() must not need memory.
  if (const std::size_t all = lanes_.size() + failed_.size() + 1; failed_.capacity() < all)
    failed_.reserve(2 * all);
  lanes_.push_back(std::make_unique<requester>(owner_, c, doorbells_[doorbell_index]));
  requester& l = *lanes_.back();
  if (c.driver != nullptr) note_driver();
  // End the lane if the node has failed while the lane was opened.
  if (const std::exception_ptr why = peers_.failure_of(node)) {
    l.guard().lock();
    l.fail(why);
    l.guard().unlock();
  }
  return l;
}

std::optional<endpoint> lane_table::try_open(node_id node, const lane_shape& shape) {
  if (const std::exception_ptr why = peers_.failure_of(node)) std::rethrow_exception(why);
  try {
    return peers_.transport_to(node).open(node, shape);
  } catch (const no_lane_left&) {
    if (!is_lane_to_come(node)) throw;
    return std::nullopt;
  }
}

bool lane_table::is_lane_to_come(node_id node) {
  {
    const std::lock_guard guard(mutex_);
    for (requester* l : retired_) {
      if (l->peer() != node) continue;
      l->guard().lock();
      const bool is_held = l->held() != 0;
      l->guard().unlock();
      // Do not count on a retired lane if callers still hold its calls. The thread that waits for a
      // lane may be such a caller, and then the retired lane would never be closed.
      if (!is_held) return true;
    }
  }
  return peers_.transport_to(node).is_lane_to_come(node);
}

void lane_table::retire(requester& l) noexcept {
  {
    const std::lock_guard guard(mutex_);
    retired_.push_back(&l);
  }
  run_continuations(reap());
}

continuation_list lane_table::reap() noexcept {
  continuation_list due;
  const std::lock_guard guard(mutex_);
  std::erase_if(retired_, [&](requester* l) {
    l->guard().lock();
    l->pump();
    continuation_list found = l->take_due();
    due.append(found);
    const bool done = l->taken() == 0;
    l->guard().unlock();
    if (!done) return false;
    // Wait for the guard, because the thread that gave the last pending call back may still be
    // inside the lane.
    l->guard().settle();
    peers_.transport_to(l->peer()).close(l->ends());
    settled_.erase(l);
    const auto is_done = [&](const auto& owned) { return owned.get() == l; };
    if (std::erase_if(lanes_, is_done) == 0) std::erase_if(failed_, is_done);
    return true;
  });
  return due;
}

// ---- replies ------------------------------------------------------------------------------------

bool lane_table::pump(const thread_lanes& own) noexcept {
  bool has_taken = false;
  own.for_each([&](requester& l) {
    // Hold the guard during the use of a lane. The memory of a lane that has not failed is not
    // freed before the guard is released.
    l.guard().lock();
    has_taken |= l.pump() != 0;
    continuation_list due = l.take_due();
    l.guard().unlock();
    queue_continuations(due);
  });
  return has_taken;
}

void lane_table::add_own_doorbells(std::vector<doorbell*>& to) const {
  const thread_lanes* const own = find_own();
  if (own == nullptr) return;
  // Add each lane's own doorbell. A lane that another thread has opened notifies the other thread's
  // doorbell, even if this thread shares the lane or has taken it over.
  own->for_each([&](const requester& l) { to.push_back(&l.wakes()); });
}

bool lane_table::has_own_replies(bool arming) noexcept {
  const thread_lanes* const own = find_own();
  if (own == nullptr) return false;
  bool found = false;
  own->for_each([&](requester& l) {
    l.guard().lock();
    if (!l.failure()) {
      if (arming) l.arm();
      found |= l.has_reply();
    }
    l.guard().unlock();
  });
  return found;
}

bool lane_table::pump_all(continuation_list& due) noexcept {
  bool has_taken = false;
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_) {
    l->progress();
    if (!l->has_reply() || !l->guard().try_lock()) continue;
    has_taken |= l->pump() != 0;
    continuation_list found = l->take_due();
    l->guard().unlock();
    // Notify the lane's own thread, which may be asleep until the reply arrives that this thread
    // has just taken.
    notify_if_armed(l->wakes());
    due.append(found);
  }
  return has_taken;
}

bool lane_table::has_replies() noexcept {
  const std::lock_guard guard(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->has_reply(); });
}

void lane_table::arm() noexcept {
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_)
    l->arm();
}

std::uint32_t lane_table::add_doorbells(std::vector<doorbell*>& to) {
  const std::uint32_t made = sets_made();
  const std::lock_guard guard(mutex_);
  for (const auto& p : sets_)
    to.push_back(&doorbells_[p->doorbell]);
  return made;
}

// ---- failure ------------------------------------------------------------------------------------

void lane_table::note_lost(node_id node) noexcept {
  if (!options_.lane_lost) return;
  /// Continuation that calls lane_lost for `node`. It runs on the completion thread, because the
  /// caller of note_lost() holds the lane's guard.
  class telling final : public continuation {
   public:
    telling(const std::function<void(node_id)>& lane_lost, node_id node)
        : lane_lost_(lane_lost), node_(node) {}
    void run() noexcept override {
      lane_lost_(node_);
      delete this;
    }

   private:
    const std::function<void(node_id)>& lane_lost_;
    node_id node_;
  };
  continuation_list due;
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory nobody can be told
  due.push_back(*new telling(options_.lane_lost, node));
  owner_.other_thread().take(due);
}

void lane_table::end_calls_to(const std::vector<node_id>& failed, continuation_list& due) noexcept {
  const auto is_alive = [&](const std::unique_ptr<requester>& l) {
    return std::find(failed.begin(), failed.end(), l->peer()) == failed.end();
  };
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_) {
    if (is_alive(l)) continue;
    l->guard().lock();
    // Receive the replies that arrived before the failure, so that their calls end normally.
    while (l->pump() != 0) {
    }
    l->fail(peers_.failure_of(l->peer()));
    continuation_list found = l->take_due();
    due.append(found);
    l->guard().unlock();
    notify(l->wakes());
  }
  const auto alive_end = std::partition(lanes_.begin(), lanes_.end(), is_alive);
  failed_.insert(failed_.end(), std::make_move_iterator(alive_end),
                 std::make_move_iterator(lanes_.end()));
  lanes_.erase(alive_end, lanes_.end());
}

void lane_table::refuse_calls_to(node_id node, const std::string& why) {
  if (!peers_.refuse(node, why)) return;
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_) {
    if (l->peer() == node && l->thread_uses != 0) l->avoid();
  }
}

} // namespace farcall::am
