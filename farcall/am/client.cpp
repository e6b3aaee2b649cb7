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

requester** thread_lanes::entry_of(node_id node) const noexcept {
  if (node < by_place_.size()) return &by_place_[node];
  // Acquire, paired with the release store in reserve(), so that the array is visible.
  if (place_of(node) >= by_place_.size() || !has_later_.load(std::memory_order_acquire))
    return nullptr;
  return &later_[place_of(node)];
}

requester* thread_lanes::find_later(node_id node) const noexcept {
  requester** const at = entry_of(node);
  if (at == nullptr) return nullptr;
  // Acquire, as in find().
  requester* const l = std::atomic_ref(*at).load(std::memory_order_acquire);
  return l != nullptr && l->peer() == node ? l : nullptr;
}

void thread_lanes::note_used(node_id node) noexcept {
  const std::size_t used = used_count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    const std::atomic_ref<node_id> at = used_entry(i);
    const node_id there = at.load(std::memory_order_relaxed);
    if (place_of(there) != place_of(node)) continue;
    // Replace the former node of the place. It has ended, so that no replies of it are awaited.
    if (there < node) at.store(node, std::memory_order_relaxed);
    return;
  }
  used_entry(used).store(node, std::memory_order_relaxed);
  // Release, paired with the acquire load in for_each(), so that for_each() sees the entries of
  // used_ below the new count.
  used_count_.store(used + 1, std::memory_order_release);
}

void thread_lanes::reserve(node_id node) {
  if (node < by_place_.size() || has_later_.load(std::memory_order_relaxed)) return;
  later_ = lane_array(by_place_.size());
  // Release, paired with the acquire load in entry_of(), so that the array is visible there.
  has_later_.store(true, std::memory_order_release);
}

void thread_lanes::set(node_id node, requester* l) noexcept {
  note_used(node);
  // Release, paired with the acquire load in find(), so that find() sees the whole lane.
  std::atomic_ref(*entry_of(node)).store(l, std::memory_order_release);
}

void thread_lanes::remove(node_id node) noexcept {
  if (find(node) == nullptr) return;
  std::atomic_ref(*entry_of(node)).store(nullptr, std::memory_order_release);
}

void thread_lanes::drop_failed() noexcept {
  // Relaxed, because only the calling thread uses the set.
  const auto used = used_.span().first(used_count_.load(std::memory_order_relaxed));
  const auto has_failed = [this](node_id node) {
    requester* const l = find(node);
    if (l == nullptr) return false;
    l->guard().lock();
    const bool failed = l->failure() != nullptr && !l->is_lost();
    l->guard().unlock();
    return failed;
  };
  const auto end = std::remove_if(used.begin(), used.end(), has_failed);
  used_count_.store(static_cast<std::size_t>(end - used.begin()), std::memory_order_relaxed);
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
  if (requester* const l = find_lane(node); l != nullptr && epoch_of(node) != 0) return *l;
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
