#include <farcall/am/engine.hpp>
#include <farcall/am/stack.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace farcall::am {
namespace {

/// Turns of a spin loop between two looks at the clock.
constexpr unsigned clock_interval = 64;

/// Turns of a spin loop between two looks at what seldom changes: what others ask of a waiting
/// thread, and new lanes of a worker. The line that is waited for is looked at every turn.
constexpr unsigned look_interval = 8;

/// Busy turns of a worker between two searches for closed lanes.
constexpr unsigned tidy_interval = 4096;

/// How long a caller of a full lane, or a worker whose answers find no room, sleeps at a time:
/// nobody rings when room appears.
constexpr std::chrono::microseconds room_interval{100};

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void release_answer(incoming& request, const void* /*context*/) noexcept {
  std::uint64_t address = 0;
  if (request.bytes() != sizeof address) return;
  std::memcpy(&address, request.arguments(), sizeof address);
  request.release_long_answer(address);
}

/// A spinning thread that has not looked at the clock for so long was taken off its processor:
/// somebody else, of this job or not, needs it.
constexpr std::chrono::microseconds preempted_after{50};

/// Counts the calling thread among those of the job that are awake.
class awake_count {
 public:
  explicit awake_count(std::atomic<std::uint32_t>* counter) noexcept : counter_(counter) {}
  awake_count(const awake_count&) = delete;
  awake_count& operator=(const awake_count&) = delete;
  ~awake_count() { leave(); }
  void enter() noexcept {
    if (!counted_ && counter_ != nullptr) counter_->fetch_add(1, std::memory_order_relaxed);
    counted_ = true;
  }
  void leave() noexcept {
    if (counted_ && counter_ != nullptr) counter_->fetch_sub(1, std::memory_order_relaxed);
    counted_ = false;
  }

 private:
  std::atomic<std::uint32_t>* counter_;
  bool counted_ = false;
};

}  // namespace

// ---- ports --------------------------------------------------------------------------------------

/// Held in thread-local storage; returns the ports of a thread that ends.
struct engine::thread_port {
  struct held {
    std::uint64_t serial;
    std::weak_ptr<engine> owner;
    port* own;
  };
  std::vector<held> all;

  ~thread_port() {
    for (const held& h : all) {
      if (const auto owner = h.owner.lock()) owner->give_back(*h.own);
    }
    cached_ = {};
  }
  static thread_port& mine() {
    static thread_local thread_port instance;
    return instance;
  }
};

port& engine::own_port() {
  if (cached_.serial == serial_) return *cached_.own;
  auto& mine = thread_port::mine().all;
  std::erase_if(mine, [](const thread_port::held& h) { return h.owner.expired(); });
  auto at = std::find_if(mine.begin(), mine.end(),
                         [&](const thread_port::held& h) { return h.serial == serial_; });
  if (at == mine.end()) {
    port& taken = take_port();
    at = mine.insert(mine.end(), {serial_, weak_from_this(), &taken});
  }
  cached_ = {serial_, at->own};
  return *at->own;
}

port& engine::take_port() {
  const std::lock_guard guard(mutex_);
  const bool is_worker = current_worker_ != nullptr && current_worker_->is_part_of(*this);
  if (!is_worker && !idle_ports_.empty()) {
    port& p = *idle_ports_.back();
    idle_ports_.pop_back();
    return p;
  }
  std::uint32_t bell_index = 0;
  if (is_worker) {
    bell_index = current_worker_->index();
  } else if (next_bell_ < options_.bells.size()) {
    bell_index = next_bell_++;
  } else {
    throw error("more than " + std::to_string(options_.bells.size() - options_.workers - 1) +
                " threads make calls at the same time; let threads end, or share calls among fewer");
  }
  ports_.push_back(std::make_unique<port>());
  ports_.back()->bell = bell_index;
  ports_.back()->lanes.resize(options_.nodes);
  ports_made_.fetch_add(1, std::memory_order_seq_cst);
  // Whoever sleeps until any lane has an answer must watch this port's bell too.
  ring_if_asleep(local_bell_);
  return *ports_.back();
}

void engine::give_back(port& p) noexcept {
  const std::lock_guard guard(mutex_);
  // Of all lanes, since a thread may also have come to own explicit ones.
  for (const auto& l : lanes_) l->guard().disown();
  // A worker's bell is of no use to other threads.
  if (p.bell > acceptor_bell()) idle_ports_.push_back(&p);
}

lane& engine::open_own_lane(node_id node) {
  if (node >= options_.nodes || peers_[node].via == nullptr) {
    throw error("there is no way to " + node_text(node) + ": the job has " +
                    std::to_string(options_.nodes) + " nodes, and 'farcall info' shows the routes",
                node);
  }
  port& own = own_port();
  if (lane* l = own.lanes[node]) return *l;
  lane* l = take_idle_lane(node);
  if (l == nullptr) l = &open_on(node, own.bell, false);
  own.lanes[node] = l;
  return *l;
}

lane* engine::take_idle_lane(node_id node) {
  const std::lock_guard guard(mutex_);
  for (port* p : idle_ports_) {
    if (p->lanes[node] != nullptr) return std::exchange(p->lanes[node], nullptr);
  }
  return nullptr;
}

lane& engine::open_lane(node_id node) {
  if (node >= options_.nodes || peers_[node].via == nullptr) {
    throw error("there is no way to " + node_text(node), node);
  }
  return open_on(node, own_port().bell, true);
}

lane& engine::open_on(node_id node, std::uint32_t bell_index, bool own_worker) {
  if (const std::exception_ptr why = failure_of(node)) std::rethrow_exception(why);
  reap_retired();
  peer& p = peers_[node];
  // A lane that gets a worker of its own rings the peer's acceptor, which is never busy.
  const std::uint32_t target_worker =
      own_worker ? p.workers : next_worker_.fetch_add(1, std::memory_order_relaxed) % p.workers;
  const channel c = p.via->open(node, {bell_index, target_worker, own_worker});
  const std::lock_guard guard(mutex_);
  lanes_.push_back(std::make_unique<lane>(*this, c, options_.bells[bell_index]));
  lane& l = *lanes_.back();
  // fail() may have run between the check above and now.
  if (p.failed.load(std::memory_order_acquire)) {
    l.guard().lock();
    l.fail(p.why);
    l.guard().unlock();
  }
  return l;
}

void engine::retire(lane& l) noexcept {
  {
    const std::lock_guard guard(mutex_);
    retired_.push_back(&l);
  }
  reap_retired();
}

void engine::reap_retired() noexcept {
  std::vector<continuation*> due;
  {
    const std::lock_guard guard(mutex_);
    std::erase_if(retired_, [&](lane* l) {
      l->guard().lock();
      l->pump();
      due.push_back(l->take_due());
      const bool done = l->taken() == 0;
      l->guard().unlock();
      if (!done) return false;
      peers_[l->peer()].via->close(l->ends());
      std::erase_if(lanes_, [&](const auto& owned) { return owned.get() == l; });
      return true;
    });
  }
  for (continuation* list : due) lane::run(list);
}

// ---- life ---------------------------------------------------------------------------------------

engine::engine(engine_options o)
    : options_(std::move(o)),
      serial_(next_serial()),
      handlers_(first_user_key),
      peers_(std::make_unique<peer[]>(options_.nodes)),
      next_bell_(options_.workers + 1) {
  register_for_barriers();
  handlers_[release_answer_key] = {&release_answer, nullptr};
  handlers_.insert(handlers_.end(), options_.handlers.begin(), options_.handlers.end());
  for (std::uint32_t i = 0; i < options_.workers; ++i) {
    workers_.push_back(
        std::make_unique<worker>(*this, i, options_.bells[i], options_.waiters_serve));
  }
}

engine::~engine() {
  stop();
  join_threads();
}

void engine::route(node_id node, transport& t, std::uint32_t workers) {
  peers_[node].via = &t;
  peers_[node].workers = workers;
}

void engine::listen(transport& t) {
  listeners_.push_back(std::make_unique<listener>());
  listeners_.back()->via = &t;
  listeners_.back()->arrivals = &t.arrivals();
}

// ---- waiting ------------------------------------------------------------------------------------

namespace {

void pump(lane& l) {
  l.guard().lock();
  l.pump();
  continuation* due = l.take_due();
  l.guard().unlock();
  if (due != nullptr) [[unlikely]] lane::run(due);
}

}  // namespace

void engine::pump_all(bool others) {
  if (cached_.serial == serial_) {
    for (lane* l : cached_.own->lanes) {
      if (l != nullptr) pump(*l);
    }
  }
  if (!others) return;
  continuation* due = nullptr;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& l : lanes_) {
      if (!l->has_answer() || !l->guard().try_lock()) continue;
      l->pump();
      continuation* found = l->take_due();
      l->guard().unlock();
      // The lane's own thread may sleep for what we have just taken.
      ring_if_asleep(l->wakes());
      while (found != nullptr) {
        continuation* next = found->next;
        found->next = due;
        due = found;
        found = next;
      }
    }
  }
  lane::run(due);
}

bool engine::has_answers() {
  const std::lock_guard guard(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->has_answer(); });
}

std::chrono::nanoseconds engine::spin_time(bool preempted) const noexcept {
  return preempted || crowded() ? options_.waiting.crowded_spin : options_.waiting.spin;
}

bool engine::crowded() const noexcept {
  std::uint32_t awake = 0;
  for (const auto* counter : options_.awake) awake += counter->load(std::memory_order_relaxed);
  return awake > options_.processors;
}

/// What a thread that waits keeps in mind between turns.
class engine::wait_state {
 public:
  explicit wait_state(engine& e) noexcept
      : engine_(e),
        awake_(e.options_.awake.empty() ? nullptr : e.options_.awake.front()),
        worker_(current_worker_ != nullptr && current_worker_->is_part_of(e) ? current_worker_
                : e.options_.waiters_serve                                   ? e.workers_[0].get()
                                                                             : nullptr),
        covers_(worker_ != nullptr && worker_ != current_worker_) {}
  wait_state(const wait_state&) = delete;
  wait_state& operator=(const wait_state&) = delete;

  ~wait_state() { uncover(); }

  /// Serves requests that have come in; true when there was one.
  bool serve() noexcept {
    if (worker_ == nullptr) return false;
    if (engine_.arrivals_changed()) engine_.accept_lanes();
    if (!worker_->has_work() || stack_is_low()) return false;
    // The handler may take long, or block; meanwhile the service thread must be woken again.
    uncover();
    ++serving_depth_;
    const bool served = worker_->turn(true) != 0;
    --serving_depth_;
    if (!served) return false;
    if (covers_) cover();
    return true;
  }

  /// Called now and then: true when it is time to sleep.
  bool spun_enough(time_point now) noexcept {
    awake_.enter();
    if (started_ == time_point{}) started_ = looked_ = now;
    const bool preempted = now - looked_ > preempted_after;
    looked_ = now;
    return now - started_ >= engine_.spin_time(preempted);
  }

  void slept() noexcept { started_ = {}; }
  void about_to_sleep() noexcept {
    awake_.leave();
    uncover();
  }

  [[nodiscard]] worker* served_worker() const noexcept { return worker_; }

 private:
  /// While we spin and serve, callers need not wake the service thread.
  void cover() noexcept {
    if (covering_) return;
    covering_ = true;
    worker_->wakes().asleep.store(0, std::memory_order_relaxed);
  }
  void uncover() noexcept {
    if (!covering_) return;
    covering_ = false;
    bell* wakes = &worker_->wakes();
    prepare_sleep({&wakes, 1});
    if (worker_->has_work() || engine_.arrivals_changed()) ring(*wakes);
  }

  engine& engine_;
  awake_count awake_;
  worker* worker_;
  bool covers_;
  bool covering_ = false;
  time_point started_{};
  time_point looked_{};
};

worker* engine::worker_to_serve() const noexcept {
  if (current_worker_ != nullptr && current_worker_->is_part_of(*this)) return current_worker_;
  // A waiting thread that is inside a handler holds its lane: nobody else can serve it.
  return options_.waiters_serve && serving_depth_ > 0 ? workers_[0].get() : nullptr;
}

std::vector<bell*> engine::bells_to_watch(completion& c) {
  std::vector<bell*> bells;
  if (c.source() != nullptr) {
    bells.push_back(&c.source()->wakes());
  } else {
    bells.push_back(&local_bell_);
    const std::lock_guard guard(mutex_);
    for (const auto& p : ports_) bells.push_back(&options_.bells[p->bell]);
  }
  if (const worker* w = worker_to_serve()) bells.push_back(&w->wakes());
  std::sort(bells.begin(), bells.end());
  bells.erase(std::unique(bells.begin(), bells.end()), bells.end());
  return bells;
}

bool engine::wait(completion& c, time_point deadline) {
  if (c.ready()) return true;
  lane* const source = c.source();
  wait_state state(*this);
  for (unsigned turn = 1;; ++turn) {
    if (source != nullptr) {
      pump(*source);
    } else if (!static_cast<local_completion&>(c).help()) {
      pump_all(turn % clock_interval == 0);
    }
    if (c.ready()) return true;
    if (turn % look_interval == 0 && state.serve()) continue;
    spin_pause();
    if (turn % clock_interval != 0) continue;

    const time_point now = clock::now();
    if (now >= deadline) return c.ready();
    if (!state.spun_enough(now)) continue;
    state.about_to_sleep();
    const std::uint32_t ports_before = ports_made_.load(std::memory_order_seq_cst);
    const std::vector<bell*> bells = bells_to_watch(c);
    prepare_sleep(bells);
    const worker* const own = worker_to_serve();
    const bool something = c.ready() ||
                           ports_made_.load(std::memory_order_seq_cst) != ports_before ||
                           (source != nullptr ? source->has_answer() : has_answers()) ||
                           (own != nullptr && (own->has_work() || arrivals_changed()));
    if (!something) {
      const bool briefly = own != nullptr && own->is_blocked();
      sleep_on(bells, briefly ? std::min(deadline, now + room_interval) : deadline);
    }
    state.slept();
  }
}

void engine::poll(completion& c) {
  if (c.source() != nullptr) {
    pump(*c.source());
  } else if (!static_cast<local_completion&>(c).help()) {
    pump_all(true);
  }
}

std::byte* engine::wait_for_room(lane& l, std::uint32_t bytes, time_point deadline) {
  wait_state state(*this);
  for (unsigned turn = 1;; ++turn) {
    l.pump();
    continuation* due = l.take_due();
    if (due == nullptr) {
      if (l.failure()) return nullptr;
      if (std::byte* arguments = l.try_reserve_request(bytes)) return arguments;
    }
    l.guard().unlock();
    lane::run(due);
    state.serve();
    spin_pause();
    if (turn % clock_interval == 0) {
      const time_point now = clock::now();
      if (now >= deadline) {
        throw timeout("the lane to " + node_text(l.peer()) + " stayed full until the deadline",
                      l.peer());
      }
      if (state.spun_enough(now)) {
        state.about_to_sleep();
        bell* wakes = &l.wakes();
        prepare_sleep({&wakes, 1});
        if (!l.has_answer()) sleep_on({&wakes, 1}, std::min(deadline, now + room_interval));
        state.slept();
      }
    }
    l.guard().lock();
  }
}

// ---- service ------------------------------------------------------------------------------------

bool engine::arrivals_changed() const noexcept {
  return std::any_of(listeners_.begin(), listeners_.end(), [](const auto& l) {
    return l->arrivals->load(std::memory_order_acquire) != l->seen.load(std::memory_order_relaxed);
  });
}

void engine::accept_lanes() noexcept {
  const std::lock_guard guard(accept_mutex_);
  for (const auto& l : listeners_) {
    const std::uint32_t now = l->arrivals->load(std::memory_order_acquire);
    if (now == l->seen.load(std::memory_order_relaxed)) continue;
    l->seen.store(now, std::memory_order_relaxed);
    while (std::optional<channel> c = l->via->accept()) {
      try {
        adopt(*l->via, *c);
      } catch (const std::exception& e) {
        log::error(std::string("a lane that a peer opened cannot be served: ") + e.what());
        refuse(c->out);
      }
    }
  }
}

void engine::adopt(transport& via, const channel& c) {
  if (c.peer >= options_.nodes || has_failed(c.peer)) {
    via.close(c);
    return;
  }
  if (!c.own_worker) {
    // A worker that does not exist is a peer's mistake; the lane is served all the same.
    worker& w = *workers_[c.worker % options_.workers];
    if (!w.add(via, c)) throw error("worker " + std::to_string(w.index()) + " has too many lanes");
    ring_if_asleep(w.wakes());
    return;
  }
  std::erase_if(lane_workers_, [](lane_worker& old) {
    if (!old.done.load(std::memory_order_acquire)) return false;
    old.thread.join();
    return true;
  });
  lane_worker& made = lane_workers_.emplace_back();
  try {
    made.serving =
        std::make_unique<worker>(*this, acceptor_bell(), options_.bells[acceptor_bell()], false);
    if (!made.serving->add(via, c)) throw error("a worker of its own has too many lanes");
    made.thread = std::thread([this, &made] {
      leave_signals_to_other_threads();
      run_worker(*made.serving, true);
      made.done.store(true, std::memory_order_release);
    });
  } catch (...) {
    lane_workers_.pop_back();
    throw;
  }
}

void engine::start_workers(std::uint32_t first) {
  for (std::uint32_t i = first; i < options_.workers; ++i) {
    threads_.emplace_back([this, i] {
      leave_signals_to_other_threads();
      serve(i);
    });
  }
  threads_.emplace_back([this] {
    leave_signals_to_other_threads();
    accept_until_stopped();
  });
}

void engine::accept_until_stopped() {
  bell* wakes = &options_.bells[acceptor_bell()];
  for (;;) {
    prepare_sleep({&wakes, 1});
    if (stopping_.load(std::memory_order_acquire)) return;
    if (arrivals_changed()) accept_lanes();
    sleep_on({&wakes, 1}, no_deadline);
  }
}

void engine::join_threads() noexcept {
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& t : threads) t.join();
  for (lane_worker& w : lane_workers_) {
    if (w.thread.joinable()) w.thread.join();
  }
}

void engine::serve(std::uint32_t index) { run_worker(*workers_[index], false); }

void engine::run_worker(worker& w, bool until_empty) {
  current_worker_ = &w;
  awake_count awake(options_.awake.empty() ? nullptr : options_.awake.front());
  // The service thread of the host only steps in where no thread of the user's waits.
  const bool is_service = options_.waiters_serve && !until_empty;
  bell* wakes = &w.wakes();
  const auto tidy = [&] {
    const std::lock_guard guard(accept_mutex_);
    return w.tidy();
  };
  time_point idle_since{};
  time_point looked{};
  unsigned busy_turns = 0;
  for (unsigned turn = 1;; ++turn) {
    if (w.turn(false) != 0) {
      idle_since = {};
      turn = 0;
      // Closed lanes must be given back even if this worker is never idle.
      if (++busy_turns % tidy_interval == 0) tidy();
      continue;
    }
    if (stopping_.load(std::memory_order_acquire)) {
      // A lane may have been opened, and another thread be about to hand it to us.
      if (!until_empty) accept_lanes();
      if (!w.has_work()) break;
    }
    spin_pause();
    if (turn % look_interval == 0 && !until_empty && arrivals_changed()) accept_lanes();
    if (turn % clock_interval != 0) continue;

    const time_point now = clock::now();
    if (idle_since == time_point{}) idle_since = looked = now;
    const bool preempted = now - looked > preempted_after;
    looked = now;
    if (!is_service) {
      awake.enter();
      if (now - idle_since < spin_time(preempted)) continue;
    }
    awake.leave();
    prepare_sleep({&wakes, 1});
    if (tidy() == 0 && until_empty) break;
    if (!w.has_work() && !(arrivals_changed() && !until_empty) &&
        !stopping_.load(std::memory_order_acquire)) {
      sleep_on({&wakes, 1}, w.is_blocked() ? now + room_interval : no_deadline);
    }
    idle_since = {};
  }
  current_worker_ = nullptr;
}

void engine::stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  // All ring, asleep or not: a thread may be between its last look and its sleep.
  for (const auto& w : workers_) ring(w->wakes());
  ring(options_.bells[acceptor_bell()]);
}

std::byte* engine::allocate_block(std::uint64_t bytes) {
  try {
    return heap().allocate(bytes);
  } catch (const out_of_memory& e) {
    throw out_of_memory(node_text(options_.self) + ": " + e.what(), options_.self);
  }
}

foreign_bytes engine::read_foreign(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  if (peer == options_.self) return {reinterpret_cast<const std::byte*>(address), nullptr};
  farcall::mover* m = mover_to(peer);
  if (m == nullptr) throw error("no memory can be read from " + node_text(peer), peer);
  if (const std::byte* here = m->map(peer, address, bytes)) return {here, nullptr};
  foreign_bytes read;
  read.copy = std::make_unique<std::byte[]>(bytes);
  read.data = read.copy.get();
  if (!m->get(peer, address, read.copy.get(), bytes)) {
    throw malformed_message(node_text(peer) + " names " + std::to_string(bytes) +
                            " bytes that cannot be read there");
  }
  return read;
}

farcall::mover* engine::mover_to(node_id peer) const noexcept {
  return peer < options_.nodes && peers_[peer].via != nullptr ? peers_[peer].via->mover() : nullptr;
}

// ---- failure ------------------------------------------------------------------------------------

bool engine::has_failed(node_id node) const noexcept {
  return node < options_.nodes && peers_[node].failed.load(std::memory_order_acquire);
}

std::exception_ptr engine::failure_of(node_id node) const {
  // Acquire; partner: the release store in fail(), after which `why` never changes.
  if (!has_failed(node)) return nullptr;
  return peers_[node].why;
}

void engine::fail(node_id node, const std::string& why) {
  std::vector<continuation*> due;
  {
    const std::lock_guard guard(mutex_);
    peer& p = peers_[node];
    if (p.failed.load(std::memory_order_relaxed)) return;
    p.why = std::make_exception_ptr(node_failed(why, node));
    p.failed.store(true, std::memory_order_release);
    for (const auto& l : lanes_) {
      if (l->peer() != node) continue;
      l->guard().lock();
      // Answers that arrived before the end count.
      while (l->pump() != 0) {
      }
      l->fail(p.why);
      due.push_back(l->take_due());
      l->guard().unlock();
      ring(l->wakes());
    }
  }
  for (continuation* list : due) lane::run(list);
  {
    const std::lock_guard guard(accept_mutex_);
    for (const auto& w : workers_) w->cut(node);
    for (lane_worker& w : lane_workers_) w.serving->cut(node);
    for (const auto& l : listeners_) l->via->forget(node);
  }
  for (const auto& w : workers_) ring(w->wakes());
  ring(options_.bells[acceptor_bell()]);
  ring(local_bell_);
}

void engine::shut_down(const std::string& why) {
  for (node_id node = 0; node < options_.nodes; ++node) fail(node, why);
  stop();
  join_threads();
}

}  // namespace farcall::am
