// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"
#include "debug_log.hpp"
#include "last_error.hpp"
#include "process.hpp"
#include "settings.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/copy/transfer.hpp>

#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>

namespace farcall::veo {
namespace {

/// Maximum number of bytes that a request takes in the lane in addition to its arguments: for its
/// header, for padding, and for its reply.
constexpr std::uint32_t request_cost = 64;
/// Bytes of the lane that a request takes if its arguments are too long for the lane and are sent
/// outside of it.
constexpr std::uint32_t long_request_cost = 128;

/// Limit of the bytes of requests in flight. It is half of the lane, so that sending a request
/// never has to wait for space.
constexpr std::uint64_t most_in_flight = process::lane_bytes / 2;

/// Time for which a submission waits for space in a full lane before it queues the request.
constexpr std::chrono::microseconds max_wait{50};

/// Maximum number of bytes of a copy that is sent to the helper as a message, in order with the
/// calls. Larger copies are made by this process itself, which sends no message if it can access
/// the helper's memory.
constexpr std::size_t message_bytes = std::size_t{8} << 10;

/// Maximum number of bytes of a write that the calling thread itself makes if the write is too
/// large for a message. If an earlier request is in progress, the context's thread makes the write
/// instead.
constexpr std::size_t caller_bytes = std::size_t{256} << 10;

std::uint32_t cost_of(std::size_t bytes) noexcept {
  return bytes > process::lane_bytes / 8 ? long_request_cost
                                         : request_cost + static_cast<std::uint32_t>(bytes);
}

std::uint32_t cost_of(const kernel_call& c) noexcept {
  return cost_of(c.words.size_bytes() + c.kinds.size() + c.sent.size());
}

void copy_out(const std::vector<std::byte>& from, const std::vector<copy_back>& pieces) {
  for (const copy_back& piece : pieces) {
    if (piece.offset > from.size() || piece.bytes > from.size() - piece.offset) {
      throw malformed_message("the reply of a kernel lacks bytes of its stack arguments");
    }
    if (piece.bytes != 0) std::memcpy(piece.to, from.data() + piece.offset, piece.bytes);
  }
}

} // namespace

// ---- queued requests ----------------------------------------------------------------------------

struct context::step {
  step() = default;
  step(const step&) = delete;
  step& operator=(const step&) = delete;
  virtual ~step() = default;
  /// Returns the number of bytes of the lane that the request takes, or 0 if the request runs on
  /// the host.
  [[nodiscard]] virtual std::uint32_t cost() const noexcept = 0;
  /// Sends the request.
  virtual void send(context& /*c*/, request& /*r*/) {}
  /// Runs the request on the host and returns its result. Throws any exception of the request.
  virtual std::uint64_t run(context& /*c*/) { return 0; }
  [[nodiscard]] bool runs_here() const noexcept { return cost() == 0; }
};

struct context::call_step final : step {
  explicit call_step(prepared_call p) : call(std::move(p)) { call.keep(); }
  [[nodiscard]] std::uint32_t cost() const noexcept override { return cost_of(call.message); }
  void send(context& c, request& r) override {
    call.message.done_by_host = c.take_done_by_host();
    if (call.message.frame_bytes == 0) {
      r.reply = async(c.lane_, run_kernel{}, call.message);
    } else {
      r.reply = async(c.lane_, run_kernel_with_frame{}, call.message);
      r.results = std::make_unique<landing>(landing{std::move(call.results)});
    }
  }
  prepared_call call;
};

template <class F, class... A>
struct context::message_step final : step {
  message_step(std::uint32_t c, A... a) : bytes_of_lane(c), arguments(std::move(a)...) {}
  [[nodiscard]] std::uint32_t cost() const noexcept override { return bytes_of_lane; }
  void send(context& c, request& r) override {
    std::apply([&](const A&... a) { r.reply = async(c.lane_, F{}, a...); }, arguments);
    if (to != nullptr) r.results = std::make_unique<landing>(landing{{{to, 0, bytes}}});
  }
  std::uint32_t bytes_of_lane;
  std::tuple<A...> arguments;
  char* to = nullptr; ///< address to which the bytes in the reply are copied
  std::size_t bytes = 0;
};

struct context::host_step final : step {
  host_step(host_function f, void* a) : function(f), argument(a) {}
  [[nodiscard]] std::uint32_t cost() const noexcept override { return 0; }
  std::uint64_t run(context& /*c*/) override { return function(argument); }
  host_function function;
  void* argument;
};

struct context::copy_step final : step {
  copy_step(std::uint64_t t, void* h, std::size_t n, bool w)
      : there(t), here(h), bytes(n), is_write(w) {}
  [[nodiscard]] std::uint32_t cost() const noexcept override { return 0; }
  std::uint64_t run(context& c) override {
    if (is_write) {
      c.owner_.put(there, here, bytes);
    } else {
      c.owner_.get(here, there, bytes);
    }
    const locked lock(c.mutex_);
    ++c.done_by_host_;
    return 0;
  }
  std::uint64_t there;
  void* here;
  std::size_t bytes;
  bool is_write;
};

// ---- construction and end -----------------------------------------------------------------------

context::context(process& owner, const context_settings& settings)
    : owner_(owner), lane_(owner.where()) {
  sync(lane_, open_context{}, settings);
}

context::~context() {
  destroyed_.fetch_add(1, std::memory_order_release);
  {
    const locked lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

// ---- the queue ----------------------------------------------------------------------------------

context::result* context::find(std::uint64_t number) noexcept {
  if (number < first_ || number >= end()) return nullptr;
  result& r = result_of(number);
  return r.was_taken ? nullptr : &r;
}

bool context::has_space(std::uint32_t cost) const noexcept {
  return in_flight_bytes_ == 0 || in_flight_bytes_ + cost <= most_in_flight;
}

std::uint32_t context::take_done_by_host() noexcept { return std::exchange(done_by_host_, 0); }

void context::changed() noexcept {
  if (sleepers_ != 0) changed_.notify_all();
}

bool context::has_reply(request& r) noexcept {
  return std::visit(
      [](auto& reply) {
        if constexpr (std::is_same_v<std::decay_t<decltype(reply)>, std::monostate>) {
          return true;
        } else {
          return reply.test();
        }
      },
      r.reply);
}

/// Takes replies, in order.
void context::advance() noexcept {
  for (; settled_ != sent_; ++settled_) {
    request& r = at(settled_);
    if (r.at == phase::sent) {
      if (!has_reply(r)) break;
      // Skip a request if a thread waits in wait_for() for its future, because that thread takes
      // the result itself.
      if (r.waiters == 0) settle(settled_);
    }
    in_flight_bytes_ -= r.cost;
  }
  for (; oldest_ != settled_ && requests_.front().at == phase::done; ++oldest_)
    requests_.pop_front();
}

/// Takes the result of a request from its reply, which has arrived, and stores it.
void context::settle(std::uint64_t number) noexcept {
  request& r = at(number);
  result& to = result_of(number);
  try {
    std::visit(
        [&](auto& reply) {
          using type = std::decay_t<decltype(reply)>;
          if constexpr (std::is_same_v<type, future<outcome>>) {
            to.value = owner_.accept(reply.get());
          } else if constexpr (std::is_same_v<type, future<outcome_with_bytes>>) {
            const outcome_with_bytes got = reply.get();
            const std::uint64_t value = owner_.accept(got.what);
            if (r.results) copy_out(got.received, r.results->pieces);
            to.value = value;
          } else if constexpr (std::is_same_v<type, future<found>>) {
            const found f = reply.get();
            if (f.is_refused) throw error(f.why);
            to.value = f.value;
          }
        },
        r.reply);
    to.state = command_state::ok;
  } catch (const kernel_failed& e) {
    to.state = command_state::exception;
    to.value = static_cast<std::uint64_t>(e.signal());
  } catch (...) {
    owner_.note_failure(current_error());
    to.state = command_state::error;
  }
  r.reply = std::monostate{};
  r.results.reset();
  r.at = phase::done;
  changed();
}

/// Sends queued requests in order. Stops at a request that runs on the host, or when the lane is
/// full.
void context::send_held() noexcept {
  while (holds()) {
    request& r = at(sent_);
    if (r.at == phase::running || !r.held) return;
    const bool dead = owner_.has_ended();
    if (r.held->runs_here() && !dead) return;
    if (!dead && !has_space(r.held->cost())) return;
    r.cost = 0;
    try {
      if (dead) throw error(owner_.end_text());
      const std::uint32_t cost = r.held->cost();
      r.held->send(*this, r);
      r.cost = cost;
      r.at = phase::sent;
    } catch (...) {
      owner_.note_failure(current_error());
      result_of(sent_).state = command_state::error;
      r.at = phase::done;
    }
    r.held.reset();
    in_flight_bytes_ += r.cost;
    ++sent_;
    changed();
  }
}

/// Loop of the context's thread: sends queued requests when the lane has space, and runs the
/// requests that run on the host.
void context::work() noexcept {
  locked lock(mutex_);
  for (;;) {
    advance();
    send_held();
    if (!holds()) {
      if (closing_) return;
      ++sleepers_;
      changed_.wait(lock);
      --sleepers_;
      continue;
    }
    if (settled_ != sent_) {
      wait_for(lock, settled_);
      continue;
    }
    // Run the request now: all requests before it have ended.
    request& r = at(sent_);
    r.at = phase::running;
    lock.unlock();
    command_state state = command_state::ok;
    std::uint64_t value = 0;
    try {
      value = r.held->run(*this);
    } catch (...) {
      owner_.note_failure(current_error());
      state = command_state::error;
    }
    lock.lock();
    r.held.reset();
    result_of(sent_) = {value, state};
    r.at = phase::done;
    settled_ = ++sent_;
    changed();
  }
}

void context::need_worker() {
  if (!worker_.is_joinable()) worker_ = library_thread("veo-requests", [this] { work(); });
}

/// Waits for the result of a request that was sent. May return before the result is available, so
/// callers check the request's state again.
void context::wait_for(locked& lock, std::uint64_t number, time_point deadline) noexcept {
  request& r = at(number);
  if (r.at != phase::sent) return;
  if (r.waiters == 0 && has_reply(r)) {
    settle(number);
    return;
  }
  ++r.waiters;
  lock.unlock();
  const bool ready = std::visit(
      [&](auto& reply) {
        if constexpr (std::is_same_v<std::decay_t<decltype(reply)>, std::monostate>) {
          return true;
        } else {
          if (deadline != no_deadline) return reply.wait_for(deadline - clock::now());
          reply.wait();
          return true;
        }
      },
      r.reply);
  lock.lock();
  --r.waiters;
  if (r.at != phase::sent) return;
  if (r.waiters == 0) {
    if (ready || has_reply(r)) settle(number);
    return;
  }
  if (!ready) return;
  // Other threads still wait for the same future, and the last of them takes the result. Wait until
  // that thread has taken the result. Do not access the request after the wait, because the request
  // may have been destroyed.
  ++sleepers_;
  changed_.wait(lock);
  --sleepers_;
}

// ---- submission ---------------------------------------------------------------------------------

void context::enter(locked& lock) {
  if (block_depth_ != 0 && block_owner_ != std::this_thread::get_id()) {
    ++sleepers_;
    changed_.wait(lock, [&] { return block_depth_ == 0; });
    --sleepers_;
  }
  if (owner_.has_ended()) [[unlikely]]
    throw error(owner_.end_text());
}

bool context::make_space(std::uint32_t cost) noexcept {
  if (holds()) return false;
  if (has_space(cost)) [[likely]]
    return true;
  const time_point deadline = clock::now() + max_wait;
  do {
    advance();
    if (has_space(cost)) return true;
  } while (clock::now() < deadline);
  return false;
}

context::request& context::add() {
  results_.emplace_back();
  try {
    return requests_.emplace_back();
  } catch (...) {
    results_.pop_back();
    throw;
  }
}

template <class Send>
std::uint64_t context::send_now(std::uint32_t cost, Send&& send) {
  request& r = add();
  try {
    send(r);
  } catch (...) {
    requests_.pop_back();
    results_.pop_back();
    throw;
  }
  r.at = phase::sent;
  r.cost = cost;
  in_flight_bytes_ += cost;
  return sent_++;
}

std::uint64_t context::submit(std::unique_ptr<step> s) {
  const std::uint32_t cost = s->cost();
  if (cost != 0 && make_space(cost)) {
    return send_now(cost, [&](request& r) { s->send(*this, r); });
  }
  need_worker();
  add().held = std::move(s);
  changed_.notify_all();
  return end() - 1;
}

std::uint64_t context::call(std::uint64_t address, const arguments& a) {
  if (a.has_frame()) {
    prepared_call prepared = a.prepare(address);
    locked lock(mutex_);
    enter(lock);
    return submit(std::make_unique<call_step>(std::move(prepared)));
  }
  kernel_call message = a.message(address);
  const std::uint32_t cost = cost_of(message);
  locked lock(mutex_);
  enter(lock);
  if (make_space(cost)) [[likely]] {
    return send_now(cost, [&](request& r) {
      message.done_by_host = take_done_by_host();
      r.reply = async(lane_, run_kernel{}, message);
    });
  }
  prepared_call later;
  later.message = message;
  return submit(std::make_unique<call_step>(std::move(later)));
}

std::uint64_t context::call_here(host_function f, void* argument) {
  if (f == nullptr) throw error("veo_call_async_vh needs a function");
  locked lock(mutex_);
  enter(lock);
  return submit(std::make_unique<host_step>(f, argument));
}

std::uint64_t context::write(std::uint64_t to, const void* from, std::size_t bytes) {
  locked lock(mutex_);
  enter(lock);
  if (bytes <= message_bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    if (const std::uint32_t cost = cost_of(bytes); make_space(cost)) {
      return send_now(cost, [&](request& r) {
        r.reply = async(lane_, write_memory{}, to, std::span(first, bytes));
      });
    }
    using later = message_step<write_memory, std::uint64_t, std::vector<std::byte>>;
    return submit(
        std::make_unique<later>(cost_of(bytes), to, std::vector<std::byte>(first, first + bytes)));
  }
  advance();
  if (bytes <= caller_bytes && !holds() && settled_ == sent_) {
    owner_.put(to, from, bytes);
    ++done_by_host_;
    add().at = phase::done;
    results_.back().state = command_state::ok;
    settled_ = ++sent_;
    return settled_ - 1;
  }
  return submit(std::make_unique<copy_step>(to, const_cast<void*>(from), bytes, true));
}

std::uint64_t context::read(void* to, std::uint64_t from, std::size_t bytes) {
  locked lock(mutex_);
  enter(lock);
  if (bytes <= message_bytes) {
    using later = message_step<read_memory, std::uint64_t, std::uint64_t>;
    auto message = std::make_unique<later>(cost_of(bytes), from, std::uint64_t{bytes});
    message->to = static_cast<char*>(to);
    message->bytes = bytes;
    return submit(std::move(message));
  }
  return submit(std::make_unique<copy_step>(from, to, bytes, false));
}

std::uint64_t context::allocate(std::size_t bytes) {
  locked lock(mutex_);
  enter(lock);
  return submit(std::make_unique<message_step<allocate_memory, std::uint64_t>>(
      request_cost, std::uint64_t{bytes}));
}

std::uint64_t context::release(std::uint64_t address) {
  locked lock(mutex_);
  enter(lock);
  return submit(
      std::make_unique<message_step<release_memory, std::uint64_t>>(request_cost, address));
}

void context::begin_block() {
  locked lock(mutex_);
  if (block_depth_ != 0 && block_owner_ != std::this_thread::get_id()) {
    ++sleepers_;
    changed_.wait(lock, [&] { return block_depth_ == 0; });
    --sleepers_;
  }
  block_owner_ = std::this_thread::get_id();
  ++block_depth_;
}

void context::end_block() {
  const locked lock(mutex_);
  if (block_depth_ == 0 || block_owner_ != std::this_thread::get_id()) {
    throw error("veo_req_block_end: this thread has begun no block");
  }
  if (--block_depth_ == 0) changed();
}

// ---- results ------------------------------------------------------------------------------------

context::taken context::refuse(std::uint64_t number) const {
  set_last_error("request " + std::to_string(number) +
                 ": there is none of this number, or its result was taken before");
  return {command_state::error, 0};
}

context::taken context::collect(std::uint64_t number) {
  result& r = result_of(number);
  const taken t{r.state, r.value};
  if (t.state != command_state::ok) set_last_error(owner_.failure_text());
  r.was_taken = true;
  for (; !results_.empty() && results_.front().was_taken; ++first_)
    results_.pop_front();
  return t;
}

context::taken context::peek(std::uint64_t number) {
  const locked lock(mutex_);
  advance();
  const result* r = find(number);
  if (r == nullptr) return refuse(number);
  if (r->state == command_state::unfinished) return {command_state::unfinished, 0};
  return collect(number);
}

context::taken context::wait(std::uint64_t number) {
  locked lock(mutex_);
  for (;;) {
    const result* r = find(number);
    if (r == nullptr) return refuse(number);
    if (r->state != command_state::unfinished) {
      if (settled_ <= number) advance();
      return collect(number);
    }
    if (at(number).at == phase::sent) {
      wait_for(lock, number);
      continue;
    }
    ++sleepers_;
    changed_.wait(lock);
    --sleepers_;
  }
}

bool context::finish(time_point deadline) {
  locked lock(mutex_);
  const std::uint64_t last = end();
  for (;;) {
    advance();
    if (settled_ >= last) return true;
    if (deadline != no_deadline && clock::now() >= deadline) return false;
    if (sent_ < last) {
      ++sleepers_;
      if (deadline == no_deadline) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, deadline);
      }
      --sleepers_;
    } else {
      // Wait for the last request only, because requests end in order.
      wait_for(lock, last - 1, deadline);
    }
  }
}

// ---- blocking requests --------------------------------------------------------------------------

void context::await_held(locked& lock) {
  enter(lock);
  while (holds()) {
    ++sleepers_;
    changed_.wait(lock);
    --sleepers_;
  }
  if (owner_.has_ended()) throw error(owner_.end_text());
}

void context::await_idle() {
  {
    locked lock(mutex_);
    enter(lock);
    advance();
    if (settled_ == end()) [[likely]] {
      ++done_by_host_;
      return;
    }
  }
  debug_log("a copy waits for requests of the first context (" +
            settings::variable_of(order_setting) + "=veo: it would not)");
  finish();
  const locked lock(mutex_);
  ++done_by_host_;
}

std::uint64_t context::call_and_wait(std::uint64_t address, const arguments& a) {
  prepared_call call;
  if (a.has_frame()) {
    call = a.prepare(address);
  } else {
    call.message = a.message(address);
  }
  {
    locked lock(mutex_);
    await_held(lock);
    call.message.done_by_host = take_done_by_host();
  }
  if (!a.has_frame()) return owner_.accept(sync(lane_, run_kernel{}, call.message));
  const outcome_with_bytes got = sync(lane_, run_kernel_with_frame{}, call.message);
  const std::uint64_t value = owner_.accept(got.what);
  copy_out(got.received, call.results);
  return value;
}

} // namespace farcall::veo
