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

} // namespace

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
    throw error(
        "more than " + std::to_string(options_.bells.size() - options_.workers - 1) +
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
  for (const auto& l : lanes_)
    l->guard().disown();
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
  for (continuation* list : due)
    lane::run(list);
}

// ---- life ---------------------------------------------------------------------------------------

engine::engine(engine_options o)
    : options_(std::move(o)), serial_(next_serial()), handlers_(first_user_key),
      peers_(std::make_unique<peer[]>(options_.nodes)), cover_(options_.bells[0]),
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

// ---- memory -----------------------------------------------------------------------------------

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
  for (continuation* list : due)
    lane::run(list);
  {
    const std::lock_guard guard(accept_mutex_);
    for (const auto& w : workers_)
      w->cut(node);
    for (lane_worker& w : lane_workers_)
      w.serving->cut(node);
    for (const auto& l : listeners_)
      l->via->forget(node);
  }
  for (const auto& w : workers_)
    ring(w->wakes());
  ring(options_.bells[acceptor_bell()]);
  ring(local_bell_);
}

void engine::shut_down(const std::string& why) {
  for (node_id node = 0; node < options_.nodes; ++node)
    fail(node, why);
  stop();
  join_threads();
}

} // namespace farcall::am
