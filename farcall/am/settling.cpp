// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/settling.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace farcall::am {

bool settling::send(pending_call& fence, time_point deadline, std::uint64_t& sent) noexcept {
  requester& l = *fence.source();
  l.guard().lock();
  std::byte* space = l.try_reserve_request(0);
  try {
    if (space == nullptr) space = owner_.waiter().wait_for_space(l, 0, deadline);
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
std::vector<pending_call*> settling::take_fences(const Wants& wants) noexcept {
  std::vector<pending_call*> fences;
  try {
    const std::lock_guard guard(owner_.lanes().mutex());
    fences.reserve(owner_.lanes().all().size());
    for (const auto& l : owner_.lanes().all()) {
      l->guard().lock();
      // Take the fence's pending call now, because a taken call keeps the lane open even if its
      // user retires the lane in the meantime.
      try {
        if (wants(*l)) {
          fences.push_back(&l->take_call(
              [](pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}));
        }
      } catch (const std::bad_alloc&) {
        log::warning("calls to a node may be lost: there is no memory");
      }
      l->guard().unlock();
    }
  } catch (const std::bad_alloc&) {
    log::warning("calls to other nodes may be lost: there is no memory");
  }
  return fences;
}

void settling::send(std::vector<pending_call*> fences, time_point deadline) noexcept {
  std::erase_if(fences, [&](pending_call* fence) {
    const requester* const lane = fence->source();
    std::uint64_t sent = 0;
    if (!send(*fence, deadline, sent)) return true;
    const std::lock_guard guard(owner_.lanes().mutex());
    auto& settled = owner_.lanes().settled();
    if (const auto at = settled.find(lane); at != settled.end()) at->second = sent;
    return false;
  });
  for (pending_call* fence : fences) {
    if (owner_.waiter().wait(*fence, deadline)) {
      fence->source()->free_call(*fence);
    } else {
      fence->source()->abandon(*fence);
    }
  }
}

void settling::drain(time_point deadline, node_id only) noexcept {
  const time_point start = clock::now();
  owner_.stops().drain(deadline);
  // If only one node is drained, extend the deadline by the time that the stops have taken.
  // Otherwise stops to other nodes could use up this node's time.
  if (only != no_node && deadline != no_deadline) deadline += clock::now() - start;
  send(take_fences([&](const requester& l) {
         return l.ends().driver != nullptr && (only == no_node || l.peer() == only);
       }),
       deadline);
}

bool settling::settle(time_point deadline) {
  const auto has_served_all = [](void* owner) noexcept {
    auto& e = *static_cast<engine*>(owner);
    return e.workers().has_served_all() && !e.lanes().has_replies();
  };
  (void)owner_.waiter().wait_until(has_served_all, &owner_, false, deadline);
  bool was_active = false;
  send(take_fences([&](const requester& l) {
         if (l.failure()) return false;
         const auto [at, is_new] = owner_.lanes().settled().try_emplace(&l, 0);
         const bool has_sent = at->second != l.ends().out.head;
         was_active |= has_sent;
         return has_sent;
       }),
       deadline);
  return was_active;
}

} // namespace farcall::am
