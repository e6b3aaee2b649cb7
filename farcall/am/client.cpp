// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/client.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace farcall::am {
namespace {

/// Returns the client's engine. Throws forked in a forked child of the process that made the
/// client, and error if the job has ended.
engine& own_engine(client& c) {
  c.require_own_process();
  return engine_of(c);
}

/// Client to which handles refer once their job has ended. The flag is_forked_ is set, so that the
/// functions of this client throw or do nothing, like the functions of a client in a forked child.
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
    // Release, paired with the acquire load in for_each(), so that for_each() sees the entries of
    // used_ below the new count.
    used_count_.store(used + 1, std::memory_order_release);
  }
  // Release, paired with the acquire load in find(), so that find() sees the whole lane.
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
  return own_engine(*this).lanes().open_own(node, deadline);
}

requester& client::open_lane(node_id node, time_point deadline) {
  return own_engine(*this).lanes().open(node, deadline);
}

void client::retire(requester& l) noexcept {
  if (!is_forked_) engine_of(*this).lanes().retire(l);
}

std::byte* client::allocate_block(std::uint64_t bytes) {
  return own_engine(*this).allocate_block(bytes);
}

void client::release_block(std::byte* block) noexcept {
  // Do not release the block in a forked child. The heap is memory that the parent shares with its
  // peers, so the release would take the block away from the parent.
  if (!is_forked_) engine_of(*this).heap().release(block);
}

void client::stop_call(node_id node, std::uint64_t id) noexcept {
  if (!is_forked_) engine_of(*this).stops().send(node, {stop_action::stop, 0, id});
}

void client::forget_call(node_id node, std::uint64_t id) noexcept {
  if (!is_forked_) engine_of(*this).stops().send(node, {stop_action::forget, 0, id});
}

std::byte* client::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  if (is_forked_) {
    l.guard().unlock();
    require_own_process();
  }
  return engine_of(*this).waiter().wait_for_space(l, bytes, deadline);
}

bool client::wait(completion& c, time_point deadline) {
  return own_engine(*this).waiter().wait(c, deadline);
}

bool client::wait_alone(pending_call& c, time_point deadline) {
  return own_engine(*this).waiter().wait_alone(c, deadline);
}

bool spin_for_reply(completion& c, reply_count expected) noexcept {
  requester* const source = c.source();
  client* const owner = c.owner();
  if (source == nullptr || owner == nullptr || owner->is_forked()) return false;
  // Do not spin on a thread that runs handlers, because it should run other handlers during the
  // wait. Do not spin on an oversubscribed machine either, because the thread should yield.
  return fiber_scheduler::mine() == nullptr &&
         !engine_of(*owner).waiter().oversubscribed().load(std::memory_order_relaxed) &&
         source->spin_for(c, expected);
}

void client::poll(completion& c) { own_engine(*this).waiter().poll(c); }

} // namespace farcall::am
