#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <thread>

namespace farcall::am {

stoppable_calls::place& stoppable_calls::first_of(node_id origin, std::uint64_t id) noexcept {
  // Each node counts its calls.
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
  // Of two calls by one name, which is a peer's mistake, the second cannot be stopped.
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
  // What it holds may be the last of it, and of this table.
  ended = std::move(at);
  at = std::move(ended->next_);
  --size_;
}

void stoppable_calls::stop(node_id origin, std::uint64_t id) noexcept {
  counted_ptr<stop_state> begun;
  try {
    const std::lock_guard guard(mutex_);
    if (!begun_.empty()) begun = find(origin, id);
    if (!begun && stopped_.size() < most_stopped) stopped_.insert({origin, id});
  } catch (const std::bad_alloc&) {
    static auto& lines = *new log::limited_log("more calls were not stopped");
    lines.warning("a call from " + node_text(origin) + " is not stopped: there is no memory");
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
  // Room first: what was taken out must not be lost.
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
    // Another thread does not go on telling it here.
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
