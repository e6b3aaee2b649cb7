// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/deferred_reply.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/stop_state.hpp>

#include <exception>
#include <utility>

namespace farcall::am {

deferred_reply::deferred_reply(counted_ptr<reply_port> port, node_id source, std::uint32_t slot,
                               counted_ptr<stop_state> call) noexcept
    : port_(std::move(port)), call_(std::move(call)), source_(source), slot_(slot) {
  // Relaxed, because the next reader of `pending` is this thread, at the end of its batch, or a
  // thread that this thread notifies.
  port_->pending.fetch_add(1, std::memory_order_relaxed);
}

deferred_reply::deferred_reply(deferred_reply&& other) noexcept
    : port_(std::move(other.port_)), call_(std::move(other.call_)), source_(other.source_),
      slot_(other.slot_), is_pending_(std::exchange(other.is_pending_, false)) {}

deferred_reply& deferred_reply::operator=(deferred_reply&& other) noexcept {
  if (this == &other) return *this;
  drop();
  port_ = std::move(other.port_);
  call_ = std::move(other.call_);
  source_ = other.source_;
  slot_ = other.slot_;
  is_pending_ = std::exchange(other.is_pending_, false);
  return *this;
}

deferred_reply::~deferred_reply() { drop(); }

void deferred_reply::drop() noexcept {
  if (!is_pending_ || reply_catcher::takes(*this)) return;
  send([](request_context& request) {
    request.reply_error("farcall::error", "the handler has dropped its reply without giving it");
  });
}

request_context deferred_reply::context() const noexcept {
  request_context request(*port_->lane->engine_, *port_->lane);
  request.source_ = source_;
  request.slot_ = slot_;
  request.released_ = true;
  request.lock_ = request_context::reply_lock::of_another;
  return request;
}

void deferred_reply::end(request_context& request) const noexcept {
  responder& lane = *port_->lane;
  if (!request.replied_ && request.wants_reply()) lane.reply_nothing(request);
  // Release, paired with the acquire load in responder::defers(), so that the worker sees that the
  // reply was sent.
  port_->pending.fetch_sub(1, std::memory_order_release);
  lane.engine_->workers().deferred_reply_was_sent(lane.blocked());
}

void deferred_reply::end_call() noexcept {
  call_->end();
  call_ = {};
}

reply_catcher::reply_catcher(const deferred_reply& of) noexcept
    : port_(of.port_.get()), slot_(of.slot_), outer_(std::exchange(this_stack.catcher, this)) {}

reply_catcher::~reply_catcher() { this_stack.catcher = outer_; }

bool reply_catcher::takes(deferred_reply& destroyed) noexcept {
  reply_catcher* const c = this_stack.catcher;
  if (c == nullptr || std::uncaught_exceptions() == 0 || c->caught_ ||
      c->port_ != destroyed.port_.get() || c->slot_ != destroyed.slot_)
    return false;
  c->caught_.emplace(std::move(destroyed));
  return true;
}

deferred_reply request_context::defer() {
  counted_ptr<reply_port> port = lane_->share_replies();
  replied_ = true;
  // The stop state of the handler that is running, because defer() is called on that handler's
  // stack.
  counted_ptr<stop_state> call(this_stack.stop);
  if (call) call->defer();
  return {std::move(port), source_, slot_, std::move(call)};
}

} // namespace farcall::am
