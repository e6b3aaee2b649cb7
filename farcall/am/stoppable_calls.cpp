#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <limits>
#include <new>

namespace farcall::am {

counted_ptr<stop_state> stoppable_calls::begin(node_id origin, std::uint64_t id) {
  counted_ptr<stop_state> call(new stop_state(counted_ptr(this), origin, id));
  const std::lock_guard guard(mutex_);
  const auto [at, is_new] = calls_.try_emplace({origin, id}, call);
  // Of two calls by one name, which is a peer's mistake, the second cannot be stopped.
  if (is_new || at->second) return call;
  calls_.erase(at);
  --stopped_;
  return {};
}

void stoppable_calls::end(const stop_state& call) noexcept {
  counted_ptr<stop_state> ended;
  const std::lock_guard guard(mutex_);
  const auto at = calls_.find({call.origin(), call.id()});
  if (at == calls_.end() || at->second.get() != &call) return;
  // What it holds may be the last of it, and of this table.
  ended = std::move(at->second);
  calls_.erase(at);
}

void stoppable_calls::stop(node_id origin, std::uint64_t id) noexcept {
  counted_ptr<stop_state> begun;
  try {
    const std::lock_guard guard(mutex_);
    const auto at = calls_.find({origin, id});
    if (at != calls_.end()) {
      begun = at->second;
    } else if (stopped_ < most_stopped) {
      calls_.try_emplace({origin, id});
      ++stopped_;
    }
  } catch (const std::bad_alloc&) {
    log::warning("a call from " + node_text(origin) + " is not stopped: there is no memory");
  }
  if (begun) begun->request_stop();
}

void stoppable_calls::forget(node_id origin, std::uint64_t id) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = calls_.find({origin, id});
  if (at == calls_.end() || at->second) return;
  calls_.erase(at);
  --stopped_;
}

std::vector<counted_ptr<stop_state>> stoppable_calls::drop_calls_of(node_id origin) {
  std::vector<counted_ptr<stop_state>> begun;
  const std::lock_guard guard(mutex_);
  const auto first = calls_.lower_bound({origin, 0});
  const auto last = calls_.upper_bound({origin, std::numeric_limits<std::uint64_t>::max()});
  std::size_t dropped = 0;
  for (auto at = first; at != last; ++at, ++dropped) {
    if (at->second) begun.push_back(at->second);
  }
  stopped_ -= dropped - begun.size();
  calls_.erase(first, last);
  return begun;
}

std::size_t stoppable_calls::size() const noexcept {
  const std::lock_guard guard(mutex_);
  return calls_.size();
}

} // namespace farcall::am
