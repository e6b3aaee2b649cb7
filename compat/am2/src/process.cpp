// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace farcall::am2 {
namespace {

/// Maximum time for which a thread sleeps before it polls again.
constexpr std::chrono::nanoseconds max_sleep = std::chrono::seconds(1);
/// Maximum time of a sleep if the job's progress thread receives messages. It is shorter, because
/// the end of a node wakes no thread in this case.
constexpr std::chrono::nanoseconds max_sleep_beside = std::chrono::milliseconds(50);
/// Number of polls between two checks for ended nodes. A check reads the clock, which takes longer
/// than a poll.
constexpr unsigned poll_interval = 64;
/// Time between two attempts to send while there is no space. The attempts are repeated because no
/// notification tells when space becomes free.
constexpr std::chrono::microseconds space_interval{50};
/// Time after which this process exits if another process has ended the job and this process has
/// not exited by itself.
constexpr std::chrono::milliseconds time_to_exit{500};
/// Time after which a message is given up if its payload finds no memory although the lane has
/// space.
constexpr std::chrono::seconds max_shortage{5};

constexpr std::size_t max_nodes = std::size_t{1} << 16;

} // namespace

process::process() : ended_(max_nodes) {}

constinit std::atomic<process*> process::only_{nullptr};

process& process::make() noexcept {
  // Never destroyed: the program's threads may still use it when the process ends.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): a program without memory ends here.
  static process& only = *new process;
  // Release pairs with the acquire load in instance(), so that the constructed object is visible.
  only_.store(&only, std::memory_order_release);
  return only;
}

constinit thread_local thread_state* process::state_ = nullptr;

thread_state& process::make_thread_state() noexcept {
  static thread_local thread_state state;
  state_ = &state;
  return state;
}

// ---- objects -----------------------------------------------------------------------------------

void process::initialise() { initialised_.fetch_add(1, std::memory_order_relaxed); }

bool process::terminate() {
  if (!is_initialised()) return false;
  if (initialised_.fetch_sub(1, std::memory_order_relaxed) != 1) return true;
  std::vector<unknown_endpoint> gone;
  {
    const std::lock_guard guard(registry_);
    for (am2_endpoint* const e : endpoints_)
      if (e != nullptr) gone.push_back(forget(e));
    bundles_.clear();
  }
  for (const unknown_endpoint& e : gone)
    dismiss(e);
  return true;
}

bool process::has(const am2_bundle* b) const noexcept {
  return std::any_of(bundles_.begin(), bundles_.end(), [b](const auto& o) { return o.get() == b; });
}

bool process::knows(const am2_bundle* b) {
  const std::lock_guard guard(registry_);
  return has(b);
}

am2_bundle* process::add_bundle(bool is_parallel) {
  const std::lock_guard guard(registry_);
  if (bundles_.size() >= max_bundles) return nullptr;
  return bundles_.emplace_back(std::make_unique<am2_bundle>(is_parallel)).get();
}

am2_endpoint* process::add_endpoint(am2_bundle& b) {
  const std::lock_guard guard(registry_);
  const endpoint_name name{network_.self(), static_cast<std::int32_t>(endpoints_.size())};
  auto made = std::make_unique<am2_endpoint>(b, name);
  endpoints_.push_back(made.get());
  put_into(b, made.get());
  return made.release();
}

void process::put_into(am2_bundle& b, am2_endpoint* e) {
  const std::lock_guard guard(b.guard);
  b.endpoints.push_back(e);
  e->bundle = &b;
  // Make the next poll check for ended nodes, because the endpoint's old bundle may not have told
  // the endpoint of all of them.
  b.ends_seen.store(0, std::memory_order_relaxed);
}

void process::take_from(am2_bundle& b, am2_endpoint* e) {
  const std::lock_guard guard(b.guard);
  std::erase(b.endpoints, e);
}

void process::make_card(am2_endpoint& e) {
  if (network_.size() == 1) return;
  void* const memory = network_.allocate(sizeof(segment_card));
  if (memory == nullptr) return;
  e.card = new (memory) segment_card;
  e.write_card();
}

process::unknown_endpoint process::forget(am2_endpoint* e) {
  if (e->card != nullptr) e->card->write({0, 0, AM_NONE});
  endpoints_[static_cast<std::size_t>(e->name.endpoint)] = nullptr;
  return unknown_endpoint(e);
}

void process::dismiss(const unknown_endpoint& e) noexcept {
  give_back_slots(*e);
  for (std::size_t i = 0; i < e->peer_count; ++i) {
    while (const auto k = e->peers[i].parts.give_up_one())
      refuse_unknown(k->node, k->m);
  }
  while (kept_message* const k = e->arrived.pop()) {
    refuse_unknown(k->node, k->m);
    e->arrived.recycle(k);
  }
}

bool process::remove(am2_bundle* b) {
  std::vector<unknown_endpoint> gone;
  {
    const std::lock_guard guard(registry_);
    if (!has(b)) return false;
    for (am2_endpoint* const e : b->endpoints)
      gone.push_back(forget(e));
    std::erase_if(bundles_, [b](const auto& o) { return o.get() == b; });
  }
  for (const unknown_endpoint& e : gone)
    dismiss(e);
  return true;
}

bool process::remove(am2_endpoint* e) {
  unknown_endpoint gone;
  {
    const std::lock_guard guard(registry_);
    if (e == nullptr || std::find(endpoints_.begin(), endpoints_.end(), e) == endpoints_.end())
      return false;
    take_from(*e->bundle, e);
    gone = forget(e);
  }
  dismiss(gone);
  return true;
}

bool process::move(am2_endpoint* e, am2_bundle* from, am2_bundle* to) {
  {
    const std::lock_guard guard(registry_);
    if (e->bundle != from) return false;
    take_from(*from, e);
    put_into(*to, e);
  }
  // Wake threads that wait for messages of the bundle `to`, because they must run the queued
  // messages of the endpoint that was moved there.
  wake();
  return true;
}

bool process::join(farcall::job made, bool has_progress_thread) {
  {
    const std::lock_guard guard(registry_);
    for (const am2_endpoint* const e : endpoints_) {
      if (e != nullptr) return false;
    }
  }
  network_.join(std::move(made), has_progress_thread, *this);
  receiver_ = network_.receiving_thread();
  self_ = network_.self();
  // Other processes send messages only after this process has entered the barrier, so that this
  // process can receive all of them.
  network_.barrier();
  return true;
}

// ---- progress ----------------------------------------------------------------------------------

am2_endpoint* process::endpoint_at(am2_bundle& b, std::size_t i) {
  // The lock is released before a handler runs, because a slow handler would block changes of the
  // list.
  const std::shared_lock guard(b.guard);
  return i < b.endpoints.size() ? b.endpoints[i] : nullptr;
}

template <class F>
void process::for_each_ready(am2_bundle& b, const F& f) {
  if (!b.is_parallel) [[likely]] {
    // By index: a faulty handler may change the list.
    // NOLINTNEXTLINE(modernize-loop-convert)
    for (std::size_t i = 0; i < b.endpoints.size(); ++i) {
      if (b.endpoints[i]->is_ready()) f(*b.endpoints[i]);
    }
    return;
  }
  am2_endpoint* e = nullptr;
  for (std::size_t i = 0; (e = endpoint_at(b, i)) != nullptr; ++i) {
    if (e->is_ready()) f(*e);
  }
}

unsigned process::run_queue(am2_endpoint& e) {
  unsigned handled = 0;
  for (std::size_t n = e.arrived.size(); n != 0; --n) {
    kept_message* const k = e.arrived.pop();
    if (k == nullptr) break;
    accept(e, k->node, k->m);
    e.arrived.recycle(k);
    ++handled;
  }
  return handled;
}

unsigned process::run_queued(am2_bundle& b, bool has_handled) {
  unsigned handled = 0;
  for_each_ready(b, [&](am2_endpoint& e) {
    if (e.arrived.size() != 0) [[unlikely]] {
      handled += run_queue(e);
    } else if (!has_handled && e.owes.load(std::memory_order_relaxed)) {
      give_back_slots(e);
    }
  });
  return handled;
}

bool process::has_queued(am2_bundle& b) {
  bool found = false;
  for_each_ready(b, [&](const am2_endpoint& e) { found |= e.arrived.size() != 0; });
  return found;
}

void process::flush() noexcept {
  outgoing_.flush([this](kept_message& k) {
    return must_wait(k.m.place == payload_place::part ? try_send_parts(k.node, k.m)
                                                      : try_send(k.node, k.m));
  });
}

template <class F>
unsigned process::run_in_place(thread_state& t, am2_bundle& b, const F& receive) {
  // `outer` is not null if this poll runs inside another poll. That poll may be of this bundle or
  // of another bundle.
  am2_bundle* const outer = std::exchange(t.polling, &b);
  const unsigned before = std::exchange(t.handled, 0);
  receive();
  t.polling = outer;
  return std::exchange(t.handled, before);
}

unsigned process::poll(thread_state& t, am2_bundle& b) {
  b.requests_since_poll.store(0, std::memory_order_relaxed);
  if (++t.polls % poll_interval == 0 || t.id != receiver_ || may_need_whole_poll(b)) [[unlikely]]
    return poll_whole(t, b);
  unsigned handled = run_in_place(t, b, [this] { network_.poll(); });
  for (const am2_endpoint* const e : b.endpoints) {
    if (e->arrived.size() != 0 || (handled == 0 && e->owes.load(std::memory_order_relaxed)))
        [[unlikely]] {
      handled += run_queued(b, handled != 0);
      break;
    }
  }
  return note_handled(t, handled);
}

unsigned process::poll_whole(thread_state& t, am2_bundle& b) {
  if (t.polls % poll_interval == 0) network_.look_for_ends();
  if (!outgoing_.empty()) flush();
  // Check for ended nodes before polling the network, so that the last messages of a node are run
  // before its end is handled.
  const bool has_notices = has_notices_of_ends(b);
  unsigned handled = t.id == receiver_ ? run_in_place(t, b, [this] { network_.poll(); }) : 0;
  handled += run_queued(b, handled != 0);
  const int code = exit_code_.load(std::memory_order_relaxed);
  if (code != no_exit && exit_of_others_ != nullptr && t.running == 0) follow_exit(code);
  if (has_notices) handled += return_messages_of_ended(b);
  return note_handled(t, handled);
}

void process::follow_exit(int code) {
  if (!expects_ends_.load(std::memory_order_relaxed)) {
    // Wait a while before exiting, because most processes are about to end the job themselves and
    // may print something before.
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    std::chrono::steady_clock::duration at{};
    if (exit_at_.compare_exchange_strong(at, now + time_to_exit, std::memory_order_relaxed)) return;
    if (now < at) return;
    exit_code_.store(no_exit, std::memory_order_relaxed);
    exit_of_others_(code);
  }
  exit_code_.store(no_exit, std::memory_order_relaxed);
}

void process::let_others_run(thread_state& t) noexcept {
  --t.idle_polls;
  std::this_thread::yield();
}

void process::give_back_slots(am2_endpoint& e) noexcept {
  if (!e.owes.exchange(false)) return;
  for (std::size_t n = 0; n < e.peer_count; ++n)
    send_credits(e, e.peers[n]);
}

void process::wake() noexcept {
  // This fence pairs with the fence in sleep(): either this thread sees that the other thread
  // sleeps, or the other thread sees the change before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) == 0) return;
  if (!receives()) network_.wake();
  {
    const std::lock_guard guard(sleep_mutex_);
  }
  woken_.notify_all();
}

void process::sleep(am2_bundle& b, bool (*is_done)(const void*), const void* done,
                    unsigned* handled) {
  const bool is_to_exit = exit_code_.load(std::memory_order_relaxed) != no_exit;
  const std::chrono::nanoseconds most = !outgoing_.empty()
                                            ? std::chrono::nanoseconds(space_interval)
                                        : is_to_exit ? std::chrono::nanoseconds(time_to_exit)
                                        : receiver_ == std::thread::id() ? max_sleep_beside
                                                                         : max_sleep;
  const auto has_reason = [&] { return is_done(done) || has_queued(b) || has_notices_of_ends(b); };
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // This fence pairs with the fence in wake(): either the waking thread sees the count above, or
  // this thread sees the change before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (receives()) {
    if (!has_reason()) *handled = run_in_place(thread(), b, [&] { network_.wait(most); });
  } else {
    // Sleep until the receiving thread wakes this thread. The receiving thread does so after it has
    // queued a message at an endpoint.
    std::unique_lock guard(sleep_mutex_);
    const bool is_late = !has_reason() && woken_.wait_for(guard, most) == std::cv_status::timeout;
    guard.unlock();
    if (is_late) network_.look_for_ends();
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void process::wait_for_message(am2_bundle& b) {
  const auto is_posted = [&b] {
    std::uint32_t n = b.posts.load(std::memory_order_relaxed);
    // Acquire pairs with the release addition in AM2_PostSema(), so that this thread sees the
    // earlier writes of the thread that has called it.
    while (n != 0 && !b.posts.compare_exchange_weak(n, n - 1, std::memory_order_acquire)) {
    }
    return n != 0;
  };
  while (poll(b) == 0 && !is_posted()) {
    unsigned handled = 0;
    sleep(
        b,
        [](const void* bundle) {
          return static_cast<const am2_bundle*>(bundle)->posts.load(std::memory_order_relaxed) != 0;
        },
        &b, &handled);
    if (handled != 0) return;
  }
}

void process::doze(am2_bundle& b) {
  if (receives()) {
    (void)run_in_place(thread(), b, [&] { network_.wait(space_interval); });
  } else {
    std::this_thread::sleep_for(space_interval);
  }
}

// ---- messages ----------------------------------------------------------------------------------

template <class Send>
sending process::send_when_there_is_space(am2_bundle& b, const Send& try_to) {
  std::optional<std::chrono::steady_clock::time_point> give_up_at;
  for (;;) {
    if (poll(b) == 0) doze(b);
    const sending now = try_to();
    if (!must_wait(now)) return now;
    if (now == sending::full) {
      give_up_at.reset();
    } else if (!give_up_at) {
      give_up_at = std::chrono::steady_clock::now() + max_shortage;
    } else if (std::chrono::steady_clock::now() > *give_up_at) {
      return now;
    }
  }
}

sending process::send_when_there_is_space(am2_bundle& b, int node, const message& m) {
  return send_when_there_is_space(b, [&] { return try_send(node, m); });
}

namespace {

/// Returns the message that try_send_parts() divides into parts. This message has the payload of
/// the long message `m` and the number of the transfer. The parts are sent before the final
/// message.
message bytes_of(const message& m, std::uint64_t transfer) noexcept {
  message bytes{message_header(m.header.kind(), m.header.payload(), m.header.handler(), 0)};
  bytes.header.tag = m.header.tag;
  bytes.header.from = m.header.from;
  bytes.header.to = m.header.to;
  bytes.offset = m.offset;
  bytes.payload = m.payload;
  bytes.bytes = m.bytes;
  bytes.place = payload_place::part;
  bytes.whole_offset = m.offset;
  bytes.whole_bytes = m.bytes;
  bytes.transfer = transfer;
  return bytes;
}

/// Returns the final message of the long message `m`, without the payload. It is sent after the
/// parts of the payload, and says which handler to run.
message without_bytes(const message& m, std::uint64_t transfer) noexcept {
  message other = m;
  other.payload = nullptr;
  other.place = payload_place::parts;
  other.transfer = transfer;
  return other;
}

} // namespace

sending process::try_send_parts(int node, message& rest) noexcept {
  message part = rest;
  part.bytes = max_part;
  while (rest.bytes != 0) {
    part.bytes = std::min(part.bytes, rest.bytes);
    const sending now = try_send(node, part);
    if (now == sending::no_memory && part.bytes > min_part) {
      part.bytes /= 2;
      continue;
    }
    if (now != sending::sent) return now;
    rest.bytes -= part.bytes;
    rest.offset = part.offset += part.bytes;
    rest.payload = part.payload = static_cast<const std::byte*>(part.payload) + part.bytes;
  }
  return sending::sent;
}

sending process::send_in_parts(am2_bundle& b, int node, const message& m) {
  // The addition is relaxed, because the number only has to be unique in this process.
  const std::uint64_t transfer = transfers_.fetch_add(1, std::memory_order_relaxed);
  message rest = bytes_of(m, transfer);
  sending now = try_send_parts(node, rest);
  if (must_wait(now)) now = send_when_there_is_space(b, [&] { return try_send_parts(node, rest); });
  return now == sending::sent ? send(b, node, without_bytes(m, transfer)) : now;
}

void process::send_or_keep_in_parts(int node, const message& m) {
  const std::uint64_t transfer = transfers_.fetch_add(1, std::memory_order_relaxed);
  message rest = bytes_of(m, transfer);
  if (must_wait(try_send_parts(node, rest))) outgoing_.push(node, rest);
  send_or_keep(node, without_bytes(m, transfer));
}

void process::deliver(int node, const compact_message& m,
                      std::span<const std::byte> payload) noexcept {
  thread_state& t = thread();
  am2_endpoint* const e = endpoint_in_place(t, m.to());
  if (e != nullptr && accept_at_once(*e, t, node, m, payload)) [[likely]] {
    ++t.handled;
  } else {
    deliver(node, m.whole(payload.data(), payload.size()));
  }
}

void process::deliver(int node, const message& m) noexcept {
  if (m.header.kind() == message_kind::job) {
    job_.add(node, m);
    if (m.header.arguments() == 2 && m.arguments[0] == exit_message &&
        m.bytes == sizeof(std::int32_t)) {
      std::int32_t code = 0;
      std::memcpy(&code, m.payload, sizeof code);
      // The store is relaxed, because the exit code publishes no other data.
      exit_code_.store(code, std::memory_order_relaxed);
    }
    wake();
    return;
  }
  thread_state& t = thread();
  if (am2_endpoint* const e = endpoint_in_place(t, m.header.to)) {
    accept(*e, node, m);
    ++t.handled;
    return;
  }
  {
    const std::lock_guard guard(registry_);
    const auto at = static_cast<std::size_t>(m.header.to);
    am2_endpoint* const e = at < endpoints_.size() ? endpoints_[at] : nullptr;
    if (e != nullptr) e->arrived.push(node, m);
    if (e == nullptr) node = -1 - node;
  }
  if (node < 0) {
    refuse_unknown(-1 - node, m);
  } else {
    wake();
  }
}

// ---- ends of nodes -----------------------------------------------------------------------------

bool process::has_ended(int node) const noexcept {
  const auto at = static_cast<std::size_t>(node);
  return at < ended_.size() && ended_[at].load(std::memory_order_relaxed);
}

void process::node_has_ended(int node) noexcept {
  const auto at = static_cast<std::size_t>(node);
  if (at >= ended_.size() || ended_[at].exchange(true, std::memory_order_relaxed)) return;
  // Release pairs with the acquire load in has_notices_of_ends(): a thread that sees the new count
  // also sees the node's flag.
  ends_.fetch_add(1, std::memory_order_release);
  wake();
}

unsigned process::return_messages_of_ended(am2_bundle& b) {
  unsigned returned = 0;
  b.ends_seen.store(ends_.load(std::memory_order_acquire), std::memory_order_relaxed);
  for_each_ready(b, [&](am2_endpoint& e) {
    for (std::size_t n = 0; n < e.peer_count; ++n) {
      peer& p = e.peers[n];
      if (!has_ended(p.name.node)) continue;
      if (expects_ends_.load(std::memory_order_relaxed)) return;
      if (e.handlers[0].load(std::memory_order_relaxed) == nullptr)
        fatal("process %d of the job has ended", p.name.node);
      const bool is_told = p.end_is_told.exchange(true, std::memory_order_relaxed);
      const credits lost = take_outstanding(p);
      if (!is_told && lost == credits{}) {
        run_end_of(e, p);
        ++returned;
      }
      for (std::size_t c = 0; c < lost.size(); ++c) {
        returned += lost[c];
        for (std::uint32_t k = 0; k < lost[c]; ++k)
          run_returned(e, &p, p.name, EUNREACHABLE, true,
                       message_header(message_kind::request, category(c), 0, 0));
      }
    }
  });
  return returned;
}

} // namespace farcall::am2
