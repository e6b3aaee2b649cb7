// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <thread>

namespace farcall::am {
namespace {

/// Log of calls that were not stopped. The number of its lines is limited, because peers can cause
/// any number of them. The log is never destroyed, because a worker may outlive static objects.
log::limited_log& unstopped_calls() {
  static auto& lines = *new log::limited_log("more calls were not stopped");
  return lines;
}

} // namespace

stoppable_calls::place& stoppable_calls::first_of(node_id origin, std::uint64_t id) noexcept {
  // Add a large multiple of the origin to the id, because the ids of all nodes count from 1 on. The
  // ids of different nodes are thereby spread over the buckets.
  return begun_[(id + std::uint64_t{origin} * 0x9e3779b97f4a7c15) & (begun_.size() - 1)];
}

stoppable_calls::place& stoppable_calls::find(node_id origin, std::uint64_t id) noexcept {
  place* at = &first_of(origin, id);
  while (*at && ((*at)->origin_ != origin || (*at)->id_ != id))
    at = &(*at)->next_;
  return *at;
}

void stoppable_calls::grow() {
  constexpr std::size_t least = 64;
  std::vector<place> before(begun_.empty() ? least : 2 * begun_.size());
  begun_.swap(before);
  for (place& first : before) {
    while (first) {
      place call = std::move(first);
      first = std::move(call->next_);
      place& to = first_of(call->origin_, call->id_);
      call->next_ = std::move(to);
      to = std::move(call);
    }
  }
}

counted_ptr<stop_state> stoppable_calls::begin(node_id origin, std::uint64_t id) {
  counted_ptr<stop_state> call(new stop_state(counted_ptr(this), origin, id));
  const std::lock_guard guard(mutex_);
  if (!stopped_.empty() && stopped_.erase({origin, id}) != 0) return {};
  if (size_ == begun_.size()) grow();
  // If a peer uses an id twice by mistake, the second of its calls cannot be stopped.
  if (place& at = find(origin, id); !at) {
    at = call;
    ++size_;
  }
  return call;
}

void stoppable_calls::end(const stop_state& call) noexcept {
  counted_ptr<stop_state> ended;
  const std::lock_guard guard(mutex_);
  if (begun_.empty()) return;
  place& at = find(call.origin(), call.id());
  if (at.get() != &call) return;
  // Destroy the entry after the lock, because the entry may hold the last reference to the call and
  // to this table.
  ended = std::move(at);
  at = std::move(ended->next_);
  --size_;
}

void stoppable_calls::stop(node_id origin, std::uint64_t id) noexcept {
  counted_ptr<stop_state> begun;
  try {
    bool is_kept = true;
    {
      const std::lock_guard guard(mutex_);
      if (!begun_.empty()) begun = find(origin, id);
      if (!begun) {
        is_kept = stopped_.size() < max_stopped || stopped_.contains({origin, id});
        if (is_kept) stopped_.insert({origin, id});
      }
    }
    if (!is_kept) {
      unstopped_calls().warning("a call from " + node_text(origin) + " is not stopped: " +
                                std::to_string(max_stopped) + " stops are remembered already");
    }
  } catch (const std::bad_alloc&) {
    unstopped_calls().warning(
        [&] { return "a call from " + node_text(origin) + " is not stopped: there is no memory"; });
  }
  if (begun) begun->request_stop();
}

void stoppable_calls::forget(node_id origin, std::uint64_t id) noexcept {
  const std::lock_guard guard(mutex_);
  stopped_.erase({origin, id});
}

std::vector<counted_ptr<stop_state>> stoppable_calls::drop_calls_of(node_id origin) {
  std::vector<counted_ptr<stop_state>> dropped;
  const std::lock_guard guard(mutex_);
  const auto is_of_it = [&](const place& at) { return at->origin_ == origin; };
  std::size_t many = 0;
  for (const place& first : begun_) {
    for (const place* at = &first; *at; at = &(*at)->next_)
      many += is_of_it(*at) ? 1 : 0;
  }
  // Reserve memory before removing calls, because removed calls must not be lost when memory runs
  // out.
  dropped.reserve(many);
  for (place& first : begun_) {
    for (place* at = &first; *at;) {
      if (!is_of_it(*at)) {
        at = &(*at)->next_;
        continue;
      }
      dropped.push_back(std::move(*at));
      *at = std::move(dropped.back()->next_);
    }
  }
  size_ -= many;
  stopped_.erase(stopped_.lower_bound({origin, 0}),
                 stopped_.upper_bound({origin, std::numeric_limits<std::uint64_t>::max()}));
  std::sort(dropped.begin(), dropped.end(),
            [](const place& a, const place& b) { return a->id_ < b->id_; });
  return dropped;
}

template <class F>
void stoppable_calls::for_each_begun(const F& f) noexcept {
  for (const place& first : begun_) {
    for (const place* at = &first; *at; at = &(*at)->next_)
      f(**at);
  }
}

void stoppable_calls::before_fork() noexcept {
  mutex_.lock();
  for_each_begun([](stop_state& call) { call.mutex_.lock(); });
}

void stoppable_calls::after_fork_in_parent() noexcept {
  for_each_begun([](stop_state& call) { call.mutex_.unlock(); });
  mutex_.unlock();
}

void stoppable_calls::after_fork_in_child() noexcept {
  for_each_begun([](stop_state& call) {
    // If another thread of the parent was running a listener, forget that listener, because its
    // thread does not exist in the forked child.
    if (call.runs_on_ != std::this_thread::get_id()) call.running_ = nullptr;
    call.mutex_.unlock();
  });
  mutex_.unlock();
}

std::size_t stoppable_calls::size() const noexcept {
  const std::lock_guard guard(mutex_);
  return size_ + stopped_.size();
}

} // namespace farcall::am
