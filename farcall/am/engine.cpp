#include <farcall/am/engine.hpp>
#include <farcall/am/lanes_left_behind.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/process_exit.hpp>
#include <farcall/base/signals.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <pthread.h>

namespace farcall::am {
namespace {

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void release_reply(request_context& request, const void* /*context*/) noexcept {
  std::uint64_t address = 0;
  if (request.bytes() != sizeof address) return;
  std::memcpy(&address, request.arguments(), sizeof address);
  request.release_rendezvous_reply(address);
}

void name_lane(request_context& request, const void* /*context*/) noexcept {
  request.name_lane(request.extra());
}

} // namespace

// ---- thread lanes -------------------------------------------------------------------------------

/// The lanes that a thread has of all engines; returns them when it ends. Not thread-local, because
/// destructors of thread-local objects may call, and, on the main thread, those of static ones: the
/// values of keys go behind the former, and at exit() stay.
struct engine::thread_lanes_return {
  struct held {
    std::uint64_t serial;
    std::weak_ptr<engine> owner;
    thread_lanes* own;
  };
  std::vector<held> all;

  thread_lanes_return() = default;
  thread_lanes_return(const thread_lanes_return&) = delete;
  thread_lanes_return& operator=(const thread_lanes_return&) = delete;
  ~thread_lanes_return() {
    for (const held& h : all) {
      const auto owner = h.owner.lock();
      if (owner && !owner->is_forked()) owner->give_back(*h.own);
    }
    cached_ = {};
  }

  static thread_lanes_return& mine() {
    static const pthread_key_t key = [] {
      pthread_key_t made{};
      const int reason = ::pthread_key_create(
          &made, [](void* own) { delete static_cast<thread_lanes_return*>(own); });
      if (reason != 0) throw_system_error("making a key for the lanes of threads", reason);
      return made;
    }();
    if (void* const own = ::pthread_getspecific(key))
      return *static_cast<thread_lanes_return*>(own);
    auto made = std::make_unique<thread_lanes_return>();
    if (const int reason = ::pthread_setspecific(key, made.get()); reason != 0) {
      throw_system_error("keeping the lanes of a thread", reason);
    }
    return *made.release();
  }
};

void engine::after_fork_in_child() noexcept {
  is_forked_ = true;
  cached_ = {};
  // Outside handlers it is a thread as any other.
  if (is_attached() && !attached_->is_on_fiber()) {
    current_worker_ = nullptr;
    fiber_scheduler::leave_thread();
  }
  // For a worker whose handler has forked. Relaxed, as below: there is one thread.
  stopping_.store(true, std::memory_order_relaxed);
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_relaxed)) d->close();
}

thread_lanes& engine::own_lanes() {
  if (cached_.serial == serial_) return *cached_.own;
  auto& mine = thread_lanes_return::mine().all;
  std::erase_if(mine, [](const thread_lanes_return::held& h) { return h.owner.expired(); });
  auto at = std::find_if(mine.begin(), mine.end(),
                         [&](const thread_lanes_return::held& h) { return h.serial == serial_; });
  if (at == mine.end()) {
    watch_exit(); // a static job is complete by now
    // Room first: what was taken must not be lost.
    mine.reserve(mine.size() + 1);
    thread_lanes& taken = take_thread_lanes();
    at = mine.insert(mine.end(), {serial_, weak_from_this(), &taken});
  }
  cached_ = {serial_, at->own};
  return *at->own;
}

thread_counters* engine::counters_of_thread() noexcept {
  try {
    return &own_lanes().counters;
  } catch (const std::exception&) {
    // Without doorbells or memory it does what it does without being counted.
    return nullptr;
  }
}

thread_lanes& engine::take_thread_lanes() {
  const std::lock_guard guard(mutex_);
  const bool is_worker = current_worker_ != nullptr && current_worker_->is_part_of(*this);
  const auto idle = std::find_if(
      idle_thread_lanes_.begin(), idle_thread_lanes_.end(), [&](const thread_lanes* p) {
        if (is_worker) return p->doorbell == current_worker_->index();
        return p->doorbell >= options_.workers && p->doorbell < first_lane_doorbell();
      });
  if (idle != idle_thread_lanes_.end()) {
    thread_lanes& p = **idle;
    idle_thread_lanes_.erase(idle);
    p.threads = 1;
    return p;
  }
  std::uint32_t doorbell_index = 0;
  if (is_worker) {
    doorbell_index = current_worker_->index();
  } else if (next_doorbell_ < first_lane_doorbell()) {
    doorbell_index = next_doorbell_++;
  } else {
    // Those of workers are theirs alone: what they sleep on must not depend on others.
    thread_lanes* fewest = nullptr;
    for (const auto& p : thread_lanes_) {
      if (p->doorbell < options_.workers) continue;
      if (fewest == nullptr || p->threads < fewest->threads) fewest = p.get();
    }
    if (fewest == nullptr) throw error("this node has no doorbells for threads that call");
    ++fewest->threads;
    return *fewest;
  }
  thread_lanes_.push_back(std::make_unique<thread_lanes>(doorbell_index, options_.nodes,
                                                         options_.counters->take_thread()));
  thread_lanes_made_.fetch_add(1, std::memory_order_seq_cst);
  // Whoever sleeps until any lane has a reply must sleep on the doorbell of these thread lanes too.
  notify_if_armed(local_doorbell_);
  return *thread_lanes_.back();
}

void engine::give_back(thread_lanes& p) noexcept {
  const std::lock_guard guard(mutex_);
  // Of all lanes, since a thread may also have come to own explicit ones.
  for (const auto& l : lanes_)
    l->guard().disown();
  if (--p.threads == 0) idle_thread_lanes_.push_back(&p);
}

void engine::throw_unreachable(node_id node) const {
  if (const peer* const p = known(node); p != nullptr && !p->why_unreachable.empty()) {
    throw error("there is no way to " + node_text(node) + " from " + node_text(options_.self) +
                    ": " + p->why_unreachable,
                node);
  }
  if (node == no_node) throw error(missing_node_text(node, options_.nodes), node);
  throw error("there is no way to " + node_text(node) + ": the job has no such node", node);
}

engine::peer& engine::reach(node_id node, time_point deadline) {
  if (known(node) == nullptr) {
    if (const std::exception_ptr why = failure_of(node)) std::rethrow_exception(why);
    if (options_.meet) options_.meet(node, deadline);
  }
  peer* const p = known(node);
  if (p == nullptr || p->via == nullptr) throw_unreachable(node);
  // Acquire; partner: the release store in refuse_calls_to().
  if (p->refuses.load(std::memory_order_acquire)) std::rethrow_exception(p->why_refused);
  return *p;
}

void engine::drop_lost(thread_lanes& own, node_id node) noexcept {
  requester* lost = nullptr;
  {
    const std::lock_guard guard(mutex_);
    requester* const now = own.find(node);
    if (now == nullptr || !now->is_lost()) return;
    own.set(node, nullptr);
    // Another thread may be using it; then it stays until the engine ends.
    if (--now->thread_uses == 0 && own.threads == 1) lost = now;
  }
  if (lost != nullptr) retire(*lost);
}

requester& engine::open_own_lane(node_id node, time_point deadline) {
  (void)reach(node, deadline);
  thread_lanes& own = own_lanes();
  // The calls under way in a lost one have failed. The node has not, as far as anybody knows.
  drop_lost(own, node);
  requester* l = own.find(node);
  if (l != nullptr) return *l;
  bool is_fresh = false;
  l = take_idle_lane(node);
  if (l == nullptr) {
    try {
      l = &open_on(node, own.doorbell, false, deadline);
      is_fresh = true;
    } catch (const no_lane_left&) {
      // Workers take replies in by themselves, of the lanes that notify them.
      if (current_worker_ == nullptr || !current_worker_->is_part_of(*this)) l = share_lane(node);
      if (l == nullptr) throw;
    }
  }
  requester* used = l;
  {
    const std::lock_guard guard(mutex_);
    // Another thread that uses the same lanes may have been faster.
    if (requester* const now = own.find(node)) used = now;
    if (used == l) {
      if (is_fresh) l->thread_uses = 1;
      own.set(node, l);
    } else if (!is_fresh) {
      --l->thread_uses;
    }
    // While it was opened, calls may have been refused. Relaxed: changes with the mutex.
    if (peers_.find(node)->refuses.load(std::memory_order_relaxed)) used->avoid();
  }
  if (used != l && is_fresh) retire(*l);
  return *used;
}

requester* engine::take_idle_lane(node_id node) {
  const std::lock_guard guard(mutex_);
  for (thread_lanes* p : idle_thread_lanes_) {
    requester* const l = p->find(node);
    if (l == nullptr || l->is_lost()) continue;
    p->set(node, nullptr);
    return l;
  }
  return nullptr;
}

bool engine::retire_idle_lane(node_id node) noexcept {
  while (requester* const l = take_idle_lane(node)) {
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

requester* engine::share_lane(node_id node) noexcept {
  const std::lock_guard guard(mutex_);
  requester* fewest = nullptr;
  for (const auto& l : lanes_) {
    if (l->peer() != node || l->thread_uses == 0 || l->is_lost()) continue;
    if (fewest == nullptr || l->thread_uses < fewest->thread_uses) fewest = l.get();
  }
  if (fewest != nullptr) ++fewest->thread_uses;
  return fewest;
}

requester& engine::open_lane(node_id node, time_point deadline) {
  for (;;) {
    try {
      return open_on(node, own_lanes().doorbell, !options_.has_one_worker, deadline);
    } catch (const no_lane_left&) {
      // Threads to come can share lanes of others.
      if (!retire_idle_lane(node)) throw;
    }
  }
}

requester& engine::open_on(node_id node, std::uint32_t doorbell_index, bool own_worker,
                           time_point deadline) {
  reap_retired();
  peer& p = reach(node, deadline);
  const std::uint32_t target_worker =
      own_worker
          ? first_lane_doorbell() +
                next_lane_doorbell_.fetch_add(1, std::memory_order_relaxed) % lane_doorbells()
          : next_worker_.fetch_add(1, std::memory_order_relaxed) % p.workers;
  const endpoint c = wait_for_lane(node, {doorbell_index, target_worker, own_worker}, deadline);
  const std::lock_guard guard(mutex_);
  lanes_.push_back(std::make_unique<requester>(*this, c, options_.doorbells[doorbell_index]));
  requester& l = *lanes_.back();
  if (c.driver != nullptr) moves_bytes_.store(true, std::memory_order_relaxed);
  // fail() may have run between the check above and now.
  if (p.failed.load(std::memory_order_acquire)) {
    l.guard().lock();
    l.fail(p.why);
    l.guard().unlock();
  }
  return l;
}

std::optional<endpoint> engine::try_open(node_id node, const lane_shape& shape) {
  if (const std::exception_ptr why = failure_of(node)) std::rethrow_exception(why);
  try {
    return peers_.find(node)->via->open(node, shape);
  } catch (const no_lane_left&) {
    if (!is_lane_to_come(node)) throw;
    return std::nullopt;
  }
}

bool engine::is_lane_to_come(node_id node) {
  {
    const std::lock_guard guard(mutex_);
    for (requester* l : retired_) {
      if (l->peer() != node) continue;
      l->guard().lock();
      const bool is_held = l->held() != 0;
      l->guard().unlock();
      // Who holds its calls may be the one that waits.
      if (!is_held) return true;
    }
  }
  return peers_.find(node)->via->is_lane_to_come(node);
}

void engine::retire(requester& l) noexcept {
  {
    const std::lock_guard guard(mutex_);
    retired_.push_back(&l);
  }
  reap_retired();
}

void engine::reap_retired() noexcept { run_continuations(reap()); }

continuation_list engine::reap() noexcept {
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
    // The thread that gave the last pending call back may not have left the lane yet.
    l->guard().settle();
    peers_.find(l->peer())->via->close(l->ends());
    settled_.erase(l);
    std::erase_if(lanes_, [&](const auto& owned) { return owned.get() == l; });
    return true;
  });
  return due;
}

// ---- life ---------------------------------------------------------------------------------------

engine::engine(engine_options o)
    : client(o.self, next_serial(), o.context), options_(std::move(o)), handlers_(first_user_key),
      peers_(options_.nodes), next_doorbell_(options_.workers) {
  if (!options_.counters) options_.counters = std::make_shared<counter_segment>();
  register_for_barriers();
  handlers_[release_reply_key] = {&release_reply, nullptr};
  handlers_[fence_key] = {[](request_context& /*request*/, const void* /*context*/) noexcept {},
                          nullptr};
  handlers_[stop_call_key] = {&take_stop, nullptr};
  handlers_[name_lane_key] = {&name_lane, nullptr};
  handlers_.insert(handlers_.end(), options_.handlers.begin(), options_.handlers.end());
  if (options_.recorder != nullptr) trace_handlers();
  // Who takes a lane over needs the barrier.
  const bool shares_lanes = options_.workers > 1 && process_barrier();
  const std::size_t most_lanes = std::max<std::size_t>(512, 2 * options_.nodes);
  for (std::uint32_t i = 0; i < options_.workers; ++i) {
    workers_.push_back(
        std::make_unique<worker>(*this, i, options_.doorbells[i], most_lanes, shares_lanes));
  }
  watch_forks();
  live_clients::add(*this);
}

/// So that handlers cost nothing more where they are not recorded.
void engine::trace_handlers() {
  traced_.reserve(handlers_.size());
  for (handler_key key = first_user_key; key < handlers_.size(); ++key) {
    if (handlers_[key].run == nullptr) continue;
    traced_.push_back({handlers_[key], key});
    handlers_[key] = {&responder::run_traced, &traced_.back()};
  }
}

engine::~engine() {
  live_clients::remove(*this);
  unwatch_forks();
  stop();
  join_threads();
  stops_.stop();
  // A pending call that is still held after the end has failed; its holder gives it back to its
  // lane.
  lanes_left_behind& left = lanes_left_behind::instance();
  const std::lock_guard guard(left.mutex);
  left.reap();
  for (auto& l : lanes_) {
    if (l->leave_engine() != 0) left.all.push_back({options_.counters, std::move(l)});
  }
  delete descriptor_.load(std::memory_order_relaxed);
}

void engine::set_route(node_id node, transport& t, std::uint32_t workers) {
  peer& p = *peers_.find_or_make(node);
  p.via = &t;
  p.workers = workers;
  // Release; partner: the acquire load in known().
  p.is_known.store(true, std::memory_order_release);
}

void engine::set_unreachable(node_id node, const std::string& why) {
  peer& p = *peers_.find_or_make(node);
  p.why_unreachable = why;
  // Release; partner: the acquire load in known().
  p.is_known.store(true, std::memory_order_release);
}

void engine::listen(transport& t) {
  listeners_.push_back(std::make_unique<listener>());
  listeners_.back()->via = &t;
  listeners_.back()->arrivals = &t.arrivals();
  if (lane_driver* const driver = t.driver()) {
    drivers_.push_back(driver);
    moves_bytes_.store(true, std::memory_order_relaxed);
  }
}

// ---- memory -----------------------------------------------------------------------------------

std::byte* engine::allocate_block(std::uint64_t bytes) {
  try {
    return heap().allocate(bytes);
  } catch (const out_of_memory& e) {
    throw out_of_memory(node_text(options_.self) + ": " + e.what(), options_.self);
  }
}

remote_bytes engine::read_remote(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  if (address % rendezvous_alignment != 0) {
    throw malformed_message(node_text(peer) + " names bytes at an odd address");
  }
  if (peer == options_.self) return {reinterpret_cast<const std::byte*>(address), nullptr};
  // It may call us before we know it.
  if (known(peer) == nullptr && options_.meet) options_.meet(peer, no_deadline);
  farcall::rma_engine* m = rma_engine_for(peer);
  if (m == nullptr) throw error("no memory can be read from " + node_text(peer), peer);
  if (const std::byte* here = m->map(peer, address, bytes)) return {here, nullptr};
  remote_bytes read;
  // Not touched before the copy, which fails where the peer's memory ends: it may name any length.
  read.copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  read.data = read.copy.get();
  if (!m->get(peer, address, read.copy.get(), bytes, no_deadline)) {
    if (const std::exception_ptr dead = failure_of(peer)) std::rethrow_exception(dead);
    const std::string what = std::to_string(bytes) + " bytes";
    const std::string why = m->failure(peer, address, bytes);
    if (why.empty()) {
      throw malformed_message(node_text(peer) + " names " + what + " that cannot be read there");
    }
    throw error("long arguments or results, " + what + ", could not be fetched from " +
                    node_text(peer) + ": " + why,
                peer);
  }
  return read;
}

farcall::rma_engine* engine::rma_engine_for(node_id peer) const noexcept {
  const engine::peer* const p = known(peer);
  return p != nullptr && p->via != nullptr ? p->via->rma_engine() : nullptr;
}

// ---- failure ------------------------------------------------------------------------------------

bool engine::has_failed(node_id node) const noexcept {
  const peer* const p = peers_.find(node);
  return p != nullptr && p->failed.load(std::memory_order_acquire);
}

const std::atomic<bool>* engine::failed_flag(node_id node) const noexcept {
  const peer* const p = peers_.find(node);
  return p != nullptr ? &p->failed : nullptr;
}

std::exception_ptr engine::failure_of(node_id node) const {
  // Acquire; partner: the release store in fail(), after which `why` never changes.
  if (!has_failed(node)) return nullptr;
  return peers_.find(node)->why;
}

void engine::refuse_calls_to(node_id node, const std::string& why) {
  const std::lock_guard guard(mutex_);
  peer* const p = known(node);
  if (p == nullptr || p->refuses.load(std::memory_order_relaxed)) return;
  p->why_refused = std::make_exception_ptr(node_failed(why, node));
  // Release; partner: the acquire load in reach().
  p->refuses.store(true, std::memory_order_release);
  for (const auto& l : lanes_) {
    if (l->peer() == node && l->thread_uses != 0) l->avoid();
  }
}

void engine::fail(node_id node, const std::string& why) {
  // Not here: who watches the nodes must not wait for one.
  // It may fail before it is known.
  (void)peers_.find_or_make(node);
  completions_.take(fail_range(node, node + 1, why));
}

void engine::note_lost_lane(node_id node) noexcept {
  if (!options_.lane_lost) return;
  /// The caller has locked the lane.
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
  completions_.take(due);
}

continuation_list engine::fail_range(node_id first, node_id end, const std::string& why) {
  std::vector<node_id> failing;
  continuation_list due;
  {
    const std::lock_guard guard(mutex_);
    for (node_id node = first; node < end; ++node) {
      peer* const p = peers_.find(node);
      if (p == nullptr || p->failed.load(std::memory_order_relaxed)) continue;
      p->why = std::make_exception_ptr(node_failed(why, node));
      p->failed.store(true, std::memory_order_release);
      failing.push_back(node);
    }
    for (const auto& l : lanes_) {
      if (std::find(failing.begin(), failing.end(), l->peer()) == failing.end()) continue;
      l->guard().lock();
      // Replies that arrived before the end count.
      while (l->pump() != 0) {
      }
      l->fail(peers_.find(l->peer())->why);
      continuation_list found = l->take_due();
      due.append(found);
      l->guard().unlock();
      notify(l->wakes());
    }
  }
  {
    const std::lock_guard guard(accept_mutex_);
    for (const node_id node : failing) {
      for (const auto& w : workers_)
        w->cut(node);
      for (lane_worker& w : lane_workers_)
        w.serving->cut(node);
      for (const auto& l : listeners_)
        l->via->forget(node);
    }
  }
  for (const node_id node : failing)
    tell_calls_of(node, due);
  for (const auto& w : workers_)
    notify(w->wakes());
  notify_lane_workers();
  notify(local_doorbell_);
  signal_completion();
  return due;
}

bool engine::send_fence(pending_call& fence, time_point deadline, std::uint64_t& sent) noexcept {
  requester& l = *fence.source();
  l.guard().lock();
  std::byte* space = l.try_reserve_request(0);
  try {
    if (space == nullptr) space = wait_for_space(l, 0, deadline);
  } catch (const timeout& e) {
    log::warning("calls to " + node_text(l.peer()) + " may be lost: " + e.what());
    l.guard().lock();
  }
  if (space != nullptr) {
    l.commit_request(space, 0, fence_key, &fence);
  } else {
    l.return_call(fence);
  }
  sent = l.ends().out.head;
  l.guard().unlock();
  return space != nullptr;
}

template <class Wants>
std::vector<pending_call*> engine::take_fences(const Wants& wants) noexcept {
  std::vector<pending_call*> fences;
  try {
    const std::lock_guard guard(mutex_);
    fences.reserve(lanes_.size());
    for (const auto& l : lanes_) {
      l->guard().lock();
      // Taken now: a lane with a call stays, whoever retires it meanwhile.
      try {
        if (wants(*l)) {
          fences.push_back(&l->take_call(
              [](pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}));
        }
      } catch (const std::bad_alloc&) {
        log::warning("calls to " + node_text(l->peer()) + " may be lost: there is no memory");
      }
      l->guard().unlock();
    }
  } catch (const std::bad_alloc&) {
    log::warning("calls to other nodes may be lost: there is no memory");
  }
  return fences;
}

void engine::send_fences(std::vector<pending_call*> fences, time_point deadline) noexcept {
  std::erase_if(fences, [&](pending_call* fence) {
    const requester* const lane = fence->source();
    std::uint64_t sent = 0;
    if (!send_fence(*fence, deadline, sent)) return true;
    const std::lock_guard guard(mutex_);
    if (const auto at = settled_.find(lane); at != settled_.end()) at->second = sent;
    return false;
  });
  for (pending_call* fence : fences) {
    if (wait(*fence, deadline)) {
      fence->source()->free_call(*fence);
    } else {
      fence->source()->abandon(*fence);
    }
  }
}

void engine::drain(time_point deadline, node_id only) noexcept {
  const time_point start = clock::now();
  stops_.drain(deadline);
  // Those of other nodes may have taken all the time that was for this one.
  if (only != no_node && deadline != no_deadline) deadline += clock::now() - start;
  send_fences(take_fences([&](const requester& l) {
                return l.ends().driver != nullptr && (only == no_node || l.peer() == only);
              }),
              deadline);
}

bool engine::has_served_all() noexcept {
  const auto is_done = [](const worker& w) {
    return !w.has_work() && !w.is_blocked() && !w.defers();
  };
  if (attached_ && attached_->has_suspended()) return false;
  return !arrivals_changed() && !has_replies() &&
         std::all_of(workers_.begin(), workers_.end(), [&](const auto& w) { return is_done(*w); });
}

bool engine::settle(time_point deadline) {
  (void)wait_until([](void* self) noexcept { return static_cast<engine*>(self)->has_served_all(); },
                   this, false, deadline);
  bool was_active = false;
  send_fences(take_fences([&](const requester& l) {
                if (l.failure()) return false;
                const auto [at, is_new] = settled_.try_emplace(&l, 0);
                const bool has_sent = at->second != l.ends().out.head;
                was_active |= has_sent;
                return has_sent;
              }),
              deadline);
  return was_active;
}

void engine::finish() {
  stop_when_done();
  join_threads();
}

bool engine::shut_down(const std::string& why, time_point deadline) {
  // Not here: what follows the calls may not return.
  completions_.take(fail_range(0, static_cast<node_id>(options_.nodes), why));
  stop();
  if (!join_threads(deadline)) return false;
  stops_.stop();
  return completions_.stop(deadline);
}

} // namespace farcall::am
