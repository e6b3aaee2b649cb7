#include <farcall/am/client.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace farcall::am {
namespace {

/// The engine behind it, for what only its own process may do.
engine& own_engine(client& c) {
  c.require_own_process();
  return engine_of(c);
}

/// The client of jobs that have ended. Handles find it as they find a parent's behind a fork.
class ended_client final : public client {
 public:
  ended_client() noexcept : client(no_node, UINT64_MAX, nullptr) { is_forked_ = true; }
};

} // namespace

void thread_lanes::set(node_id node, requester* l) noexcept {
  const std::size_t used = used_count_.load(std::memory_order_relaxed);
  const auto end = used_.begin() + static_cast<std::ptrdiff_t>(used);
  if (std::find(used_.begin(), end, node) == end) {
    used_[used] = node;
    // Release; partner: the acquire load in for_each().
    used_count_.store(used + 1, std::memory_order_release);
  }
  // Release; partner: the acquire load in find().
  by_node_[node].store(l, std::memory_order_release);
}

constinit thread_local cached_lanes client::cached_{};

void client::require_own_process() const {
  if (!is_forked_) [[likely]]
    return;
  if (this == &live_clients::ended())
    throw error("the job has ended: nothing can be called, copied or allocated behind its end");
  throw forked();
}

client& live_clients::ended() noexcept {
  static_assert(std::is_trivially_destructible_v<ended_client>);
  static ended_client it;
  return it;
}

requester& client::open_own_lane(node_id node, time_point deadline) {
  return own_engine(*this).open_own_lane(node, deadline);
}

requester& client::open_lane(node_id node, time_point deadline) {
  return own_engine(*this).open_lane(node, deadline);
}

void client::retire(requester& l) noexcept {
  if (!is_forked_) engine_of(*this).retire(l);
}

std::byte* client::allocate_block(std::uint64_t bytes) {
  return own_engine(*this).allocate_block(bytes);
}

void client::release_block(std::byte* block) noexcept {
  // The block is in memory that the parent shares with others.
  if (!is_forked_) engine_of(*this).heap().release(block);
}

void client::stop_call(node_id node, std::uint64_t id) noexcept {
  if (!is_forked_) engine_of(*this).send_stop(node, {stop_action::stop, 0, id});
}

void client::forget_call(node_id node, std::uint64_t id) noexcept {
  if (!is_forked_) engine_of(*this).send_stop(node, {stop_action::forget, 0, id});
}

std::byte* client::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  if (is_forked_) {
    l.guard().unlock();
    require_own_process();
  }
  return engine_of(*this).wait_for_space(l, bytes, deadline);
}

bool client::spin_for_reply(completion& c, reply_count expected) noexcept {
  return !is_forked_ && engine_of(*this).spin_for_reply(c, expected);
}

bool client::wait(completion& c, time_point deadline) {
  return own_engine(*this).wait(c, deadline);
}

bool client::wait_alone(pending_call& c, time_point deadline) {
  return own_engine(*this).wait_alone(c, deadline);
}

void client::poll(completion& c) { own_engine(*this).poll(c); }

} // namespace farcall::am
