// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace farcall::am {

struct responder::backlog {
  struct waiting_reply {
    std::unique_ptr<std::byte[]> record;
    std::uint32_t bytes;
    record_kind kind;
  };
  std::deque<waiting_reply> waiting;
  /// Memory in which the current reply is written if the ring has no space for it.
  std::unique_ptr<std::byte[]> pending;
  /// Heap blocks with rendezvous replies that their callers have not read yet.
  std::set<std::uint64_t> rendezvous_replies;
};

namespace {

constexpr std::string_view no_memory = "its process has no memory left for a reply";

// Logs of lanes that were cut, and of posted calls that have failed. The number of their lines is
// limited, because a peer can cause any number of them. The logs are never destroyed, because a
// worker may outlive static objects.
log::limited_log& lane_cuts() {
  static auto& lines = *new log::limited_log("more lanes were cut for want of memory");
  return lines;
}
log::limited_log& lost_posts() {
  static auto& lines = *new log::limited_log("more posted calls have failed");
  return lines;
}

/// True if the record is a valid request of a kind that rarely occurs.
bool is_rare_request(const record_view& record) noexcept {
  if (record.kind == record_kind::request_rendezvous) return true;
  return (record.kind == record_kind::stoppable_request ||
          record.kind == record_kind::stoppable_rendezvous) &&
         record.bytes >= request_body + sizeof(stoppable_prefix);
}

} // namespace

// ---- request_context ----------------------------------------------------------------------------

std::byte* request_context::take_arguments() noexcept {
  return copy_ != nullptr ? copy_->copy.release() : nullptr;
}

std::byte* request_context::reserve_rendezvous_reply(std::uint64_t bytes) {
  return engine_->allocate_block(bytes);
}

void request_context::commit_rendezvous_reply(std::byte* reply, std::uint64_t bytes) noexcept {
  try {
    std::byte* record = lane_->reserve(*this, rendezvous_record_bytes);
    const rendezvous_body where{reinterpret_cast<std::uintptr_t>(reply), bytes};
    std::memcpy(record + rendezvous_body_at, &where, sizeof where);
    if (wants_reply()) lane_->backlog_->rendezvous_replies.insert(where.address);
    lane_->send(*this, record, rendezvous_record_bytes, record_kind::reply_rendezvous);
    if (!wants_reply()) cancel_rendezvous_reply(reply);
  } catch (const std::bad_alloc&) {
    cancel_rendezvous_reply(reply);
    reply_error("std::bad_alloc", "no memory for the reply");
  }
}

void request_context::cancel_rendezvous_reply(std::byte* reply) noexcept {
  engine_->heap().release(reply);
}

void request_context::release_rendezvous_reply(std::uint64_t address) noexcept {
  lane_->release_reply(address);
}

void request_context::reply_error(std::string_view type_name, std::string_view text) noexcept {
  if (replied_) return;
  if (!wants_reply()) {
    // Log the error, because the caller of a posted call receives no reply.
    lost_posts().warning("a posted call from " + node_text(source_) + " threw " +
                         thrown_text(type_name, text));
    replied_ = true;
    return;
  }
  type_name = type_name.substr(0, max_reply() / 4);
  text = text.substr(0, max_reply() / 2);
  const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(type_name.size()),
                                  static_cast<std::uint32_t>(text.size())};
  const auto bytes = static_cast<std::uint32_t>(reply_body + sizeof sizes + sizes[0] + sizes[1]);
  try {
    std::byte* record = lane_->reserve(*this, bytes);
    std::byte* to = record + reply_body;
    std::memcpy(to, sizes, sizeof sizes);
    to = std::copy_n(reinterpret_cast<const std::byte*>(type_name.data()), sizes[0],
                     to + sizeof sizes);
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), sizes[1], to);
    lane_->send(*this, record, bytes, record_kind::reply_error);
  } catch (const std::bad_alloc&) {
    // Cut the lane, because without the error reply its caller would wait for ever.
    lane_cuts().error([this] {
      return "no memory to report an error to " + node_text(source_) + "; its lane is cut";
    });
    lane_->refuse_more(no_memory);
  }
}

void request_context::reply_unknown() noexcept {
  if (replied_) return;
  if (!wants_reply()) {
    lost_posts().warning("a posted call from " + node_text(source_) +
                         " names no function of this program");
    replied_ = true;
    return;
  }
  try {
    std::byte* record = lane_->reserve(*this, reply_body);
    lane_->send(*this, record, reply_body, record_kind::reply_unknown);
  } catch (const std::bad_alloc&) {
    lane_cuts().error([this] {
      return "no memory to report an error to " + node_text(source_) + "; its lane is cut";
    });
    lane_->refuse_more(no_memory);
  }
}

void request_context::name_lane(std::uint32_t callers_number) noexcept {
  lane_->name_lane(callers_number);
}

// ---- responder --------------------------------------------------------------------------------

responder::responder(engine& e, const endpoint& c)
    : engine_(&e), context_(e.context()), endpoint_(c), counts_(&e.counters()->take_server(c.peer)),
      by_(&e.workers().first().counters()), backlog_(new backlog) {
  watch_forks();
}

responder::~responder() {
  unwatch_forks();
  if (port_) {
    const std::lock_guard guard(port_->mutex);
    port_->lane = nullptr;
  }
  for (const std::uint64_t address : backlog_->rendezvous_replies)
    engine_->heap().release(reinterpret_cast<std::byte*>(address));
  delete backlog_;
  engine_->counters()->give_back(counts_->block);
}

counted_ptr<reply_port> responder::share_replies() {
  // Each thread that replies reads shares_replies_, so change it only while no other thread may
  // reply.
  if (!shares_replies_) {
    if (!port_) {
      port_ = counted_ptr<reply_port>(new reply_port);
      port_->lane = this;
    }
    shares_replies_ = true;
  }
  return port_;
}

void responder::begin_wait(bool shares) noexcept {
  // Relaxed, because the next call of has_waiting() is on this thread, or on the worker that takes
  // the lane. The accesses of that worker are ordered by lane_place::take().
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (!shares) return;
  try {
    (void)share_replies();
  } catch (const std::bad_alloc&) {
    // If there is no memory, no other thread can reply. In that case worker::leave() pins the lane
    // to its worker while the handler waits.
  }
}

bool responder::has_waited_since(time_point now, time_point since) noexcept {
  if (!has_request()) {
    polled_ = no_position;
    return false;
  }
  const std::uint64_t at = seen_.load(std::memory_order_relaxed);
  if (std::exchange(polled_, at) != at) first_poll_ = now;
  return first_poll_ <= since;
}

bool responder::defers() const noexcept {
  if (has_waiting()) return true;
  // Acquire, paired with the release subtraction in deferred_reply::end(), so that this thread sees
  // that the reply was sent.
  return shares_replies_ && port_->pending.load(std::memory_order_acquire) != 0;
}

void responder::lock_replies(request_context& request) noexcept {
  if (request.lock_ != request_context::reply_lock::free) return;
  port_->mutex.lock();
  request.lock_ = request_context::reply_lock::own;
}

void responder::unlock_replies(request_context& request) noexcept {
  request.lock_ = request_context::reply_lock::free;
  port_->mutex.unlock();
}

record_view responder::next_request() noexcept {
  if (blocked() && !flush()) [[unlikely]]
    return {};
  // Take no request until a waiting handler has released its record, because peek() would find the
  // same request again.
  if (current_bytes_ != 0 || is_cut()) [[unlikely]]
    return {};
  if (shares_replies_ && !defers()) [[unlikely]]
    shares_replies_ = false;
  const record_view record = peek(endpoint_.in);
  if (!record) {
    // Note the ring position behind a pad that peek() has consumed, because has_request() would
    // mistake the pad's memory for a request.
    seen_.store(endpoint_.in.tail, std::memory_order_relaxed);
    return {};
  }
  if (record.kind == record_kind::lost) return {};
  if (record.kind == record_kind::corrupt || record.bytes < sizeof(request_header) ||
      (record.kind != record_kind::request && !is_rare_request(record))) {
    // Limit the number of log lines, because a peer may open any number of lanes.
    static auto& refusals = *new log::limited_log("more lanes were cut");
    refusals.warning(node_text(endpoint_.peer) +
                     " sent bytes that are no request; its lane is cut");
    constexpr std::string_view why = "it was sent bytes that are no request";
    if (shares_replies_) {
      const std::lock_guard guard(port_->mutex);
      refuse_more(why);
    } else {
      refuse_more(why);
    }
    return {};
  }
  return record;
}

bool responder::serve_one() noexcept {
  record_view record;
  if (is_plain()) [[likely]]
    record = peek(endpoint_.in);
  if (record.kind != record_kind::request || record.bytes < sizeof(request_header)) [[unlikely]] {
    record = next_request();
    if (!record) return false;
  }
  current_bytes_ = record.bytes;
  request_header header;
  std::memcpy(&header, record.data, sizeof header);

  request_context request(*engine_, *this);
  request.source_ = endpoint_.peer;
  request.slot_ = header.record.slot;
  request.extra_ = header.extra;
  request.arguments_ = record.data + request_body;
  request.bytes_ = record.bytes - request_body;
  if (record.kind == record_kind::request) [[likely]] {
    run(request, header.key);
  } else if (record.kind == record_kind::request_rendezvous) {
    run_rendezvous(request, header.key);
  } else {
    run_stoppable(request, header.key, record.kind);
  }
  return true;
}

bool responder::refuse_one() noexcept {
  const record_view record = next_request();
  if (!record) return false;
  request_header header;
  std::memcpy(&header, record.data, sizeof header);
  // Serve requests of the active-message layer itself in any case, because their handlers do not
  // wait.
  if (header.key < first_user_key) return serve_one();
  current_bytes_ = record.bytes;
  request_context request(*engine_, *this);
  request.source_ = endpoint_.peer;
  request.slot_ = header.record.slot;
  request.release();
  try {
    request.reply_error(
        nested_too_deep_type,
        node_text(engine_->self()) +
            " does not run this call: " + std::to_string(fiber_scheduler::max_suspended) +
            " handlers wait there, or no stack can be had for another; let handlers "
            "return futures instead of waiting, or call less deeply");
  } catch (const std::bad_alloc&) {
    request.reply_error(nested_too_deep_type, "");
  }
  return true;
}

void responder::run(request_context& request, handler_key key) noexcept {
  if (const handler_function handler = engine_->handlers().find(key)) [[likely]] {
    worker_counters& counts = *by_;
    counts.running = std::uint64_t{request.extra_} << 32 | key;
    handler(request);
    // Count the request only after the handler has replied, so that counting does not delay the
    // reply.
    ++counts.counts()[key];
  } else {
    request.reply_unknown();
  }
  request.release();
  if (!request.replied_ && request.wants_reply()) [[unlikely]]
    reply_nothing(request);
  if (request.lock_ == request_context::reply_lock::own) [[unlikely]]
    unlock_replies(request);
}

std::uint32_t responder::number_in_events(trace::recorder& by) noexcept {
  if (lane_number_ == 0) lane_number_ = by.add_lane(endpoint_.peer, false);
  return lane_number_;
}

void responder::name_lane(std::uint32_t callers_number) noexcept {
  if (trace::recorder* const by = engine_->recorder())
    by->name_lane(number_in_events(*by), callers_number);
}

std::uint64_t responder::position_of(const request_context& request) const noexcept {
  if (request.in_ring_) return endpoint_.in.tail;
  // Compute the position from the length of the rendezvous record, because the record's space was
  // released before.
  const std::uint32_t bytes =
      rendezvous_record_bytes + (this_stack.stop != nullptr ? sizeof(stoppable_prefix) : 0);
  return endpoint_.in.tail - align_up<std::uint64_t>(bytes, record_alignment);
}

void responder::run_traced(request_context& request) noexcept {
  responder& lane = *request.lane_;
  // Key of the running request, which run() has just stored.
  const auto key = static_cast<handler_key>(lane.by_->running);
  const handler_function handler = lane.engine_->handlers().traced(key);
  trace::recorder& by = *lane.engine_->recorder();
  if (!by.is_on()) {
    handler(request);
    return;
  }
  const std::uint32_t number = lane.number_in_events(by);
  const std::uint64_t position = lane.position_of(request);
  by.record(trace::event_kind::handler_begin, number, position, request.slot_, key, request.extra_);
  handler(request);
  // Check is_on() again, because this process may be a forked child by now. Do not use the lane,
  // because another worker may have it by now.
  if (by.is_on())
    by.record(trace::event_kind::handler_end, number, position, request.slot_, key, request.extra_);
}

void responder::run_rendezvous(request_context& request, handler_key key) noexcept {
  try {
    if (request.bytes_ != sizeof(rendezvous_body)) {
      throw malformed_message(node_text(endpoint_.peer) + " sent a long call that is cut short");
    }
    rendezvous_body where{};
    std::memcpy(&where, request.arguments_, sizeof where);
    request.release();
    remote_bytes bytes = engine_->peers().read_remote(endpoint_.peer, where.address, where.bytes);
    request.copy_ = &bytes;
    request.arguments_ = bytes.data;
    request.bytes_ = where.bytes;
    request.in_ring_ = false;
    run(request, key);
  } catch (const std::exception& e) {
    request.release();
    request.reply_error(demangle(typeid(e).name()), exception_text(e));
  }
}

void responder::run_stoppable(request_context& request, handler_key key,
                              record_kind kind) noexcept {
  stoppable_prefix prefix{};
  std::memcpy(&prefix, request.arguments_, sizeof prefix);
  request.arguments_ += sizeof prefix;
  request.bytes_ -= sizeof prefix;
  counted_ptr<stop_state> call;
  try {
    call = engine_->stops().calls().begin(endpoint_.peer, prefix.id);
  } catch (const std::bad_alloc&) {
    request.release();
    request.reply_error("std::bad_alloc", "no memory for a call that can be stopped");
    return;
  }
  if (!call) {
    request.release();
    request.reply_error("farcall::cancelled", "the call was stopped before it had begun");
    return;
  }
  // Stop the call if the caller's node has failed. The failure may have stopped the node's running
  // calls just before this call was added to the table.
  if (is_abandoned()) call->request_stop();
  stop_state* const before = std::exchange(this_stack.stop, call.get());
  if (kind == record_kind::stoppable_request) {
    run(request, key);
  } else {
    run_rendezvous(request, key);
  }
  this_stack.stop = before;
  if (!call->is_deferred()) call->end();
}

void responder::reply_nothing(request_context& request) noexcept {
  try {
    send(request, reserve(request, reply_body), reply_body, record_kind::reply);
  } catch (const std::bad_alloc&) {
    lane_cuts().error([this] {
      return "no memory for a reply to " + node_text(endpoint_.peer) + "; its lane is cut";
    });
    refuse_more(no_memory);
  }
}

std::byte* responder::reserve_aside(request_context& request, std::uint32_t bytes) {
  request.reserved_in_ring_ = false;
  backlog_->pending = std::make_unique<std::byte[]>(bytes);
  return backlog_->pending.get();
}

void responder::keep(std::uint32_t bytes, record_kind kind) noexcept {
  if (is_cut()) return;
  try {
    backlog_->waiting.push_back({std::move(backlog_->pending), bytes, kind});
    blocked_.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    lane_cuts().error([this] {
      return "no memory to keep a reply for " + node_text(endpoint_.peer) + "; its lane is cut";
    });
    refuse_more(no_memory);
  }
}

bool responder::flush() noexcept {
  if (!shares_replies_) return flush_locked();
  const std::lock_guard guard(port_->mutex);
  return flush_locked();
}

bool responder::flush_locked() noexcept {
  auto& waiting = backlog_->waiting;
  while (!waiting.empty() && !is_cut()) {
    const backlog::waiting_reply& reply = waiting.front();
    std::byte* record = try_reserve(endpoint_.out, reply.bytes);
    if (record == nullptr) return false;
    std::memcpy(record + sizeof(std::uint32_t), reply.record.get() + sizeof(std::uint32_t),
                reply.bytes - sizeof(std::uint32_t));
    commit(endpoint_.out, record, reply.bytes, reply.kind);
    waiting.pop_front();
  }
  waiting.clear();
  blocked_.store(false, std::memory_order_relaxed);
  return true;
}

void refuse_lane(outbox& out, std::string_view why) noexcept {
  const auto bytes = static_cast<std::uint32_t>(sizeof(record_header) + why.size());
  if (std::byte* const record = try_reserve(out, bytes)) {
    std::memcpy(record + sizeof(record_header), why.data(), why.size());
    commit(out, record, bytes, record_kind::refusal);
  }
  refuse(out);
}

void responder::refuse_more(std::string_view why) noexcept {
  if (is_cut()) return;
  refuse_lane(endpoint_.out, why);
  cut_.store(true, std::memory_order_release);
}

void responder::release_reply(std::uint64_t address) noexcept {
  std::unique_lock<std::mutex> guard;
  if (shares_replies_) guard = std::unique_lock(port_->mutex);
  if (backlog_->rendezvous_replies.erase(address) != 0) {
    engine_->heap().release(reinterpret_cast<std::byte*>(address));
  }
}

} // namespace farcall::am
