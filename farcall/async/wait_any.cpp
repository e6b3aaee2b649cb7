// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/combine.hpp>
#include <farcall/async/wait_any.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

namespace farcall::detail {
namespace {

/// Event that becomes ready when the first of several continuations runs.
class first_of : public counted {
 public:
  explicit first_of(am::client& owner) : event_(new local_state<void>(&owner)) {}
  first_of(const first_of&) = delete;
  first_of& operator=(const first_of&) = delete;
  /// Completes the event if no continuation has done so, because complete() and release() each
  /// release one of the event's two references. The thread that waited for the event has already
  /// returned.
  ~first_of() {
    complete();
    event_->release();
  }

  void complete() noexcept {
    // Relaxed, because only the first exchange has an effect; the event orders all other memory
    // accesses.
    if (!is_complete_.exchange(true, std::memory_order_relaxed)) event_->complete(nullptr);
  }
  [[nodiscard]] am::local_completion& event() noexcept { return *event_; }

  class watch final : public am::continuation {
   public:
    explicit watch(counted_ptr<first_of> all) noexcept : all_(std::move(all)) {}
    void run() noexcept override {
      all_->complete();
      delete this;
    }

   private:
    counted_ptr<first_of> all_;
  };

 private:
  local_state<void>* event_;
  std::atomic<bool> is_complete_{false};
};

/// Attaches a watch to each of several states, and detaches the watches at its end, also if the
/// wait throws.
class watched_states {
 public:
  explicit watched_states(std::span<am::completion* const> states) : states_(states) {
    watches_.reserve(states.size());
  }
  watched_states(const watched_states&) = delete;
  watched_states& operator=(const watched_states&) = delete;
  ~watched_states() { detach(); }

  /// Attaches a watch to the next state, which is `s`.
  void attach(am::completion& s, am::continuation& watch) noexcept {
    watches_.push_back(&watch);
    s.attach(&watch);
  }
  void detach() noexcept {
    for (std::size_t i = 0; i < watches_.size(); ++i) {
      // If a watch cannot be detached, it is running or has run, and deletes itself.
      if (states_[i]->detach(watches_[i])) delete watches_[i];
    }
    watches_.clear();
  }

 private:
  std::span<am::completion* const> states_;
  std::vector<am::continuation*> watches_;
};

std::optional<std::size_t> ready_one(std::span<am::completion* const> states) noexcept {
  const auto at =
      std::find_if(states.begin(), states.end(), [](const auto* s) { return s->ready(); });
  if (at == states.end()) return std::nullopt;
  return static_cast<std::size_t>(at - states.begin());
}

} // namespace

std::optional<std::size_t> wait_any(std::span<am::completion* const> states, time_point deadline) {
  am::client* const owner = common_owner(states);
  if (const auto ready = ready_one(states)) return ready;
  // If no future is ready and none knows its job, the futures belong to coroutines that await no
  // call or copy of farcall. A wait for replies would then have no end.
  if (owner == nullptr) throw error("these futures depend on no call or copy of a job");
  const counted_ptr<first_of> first(new first_of(*owner));
  watched_states watched(states);
  for (am::completion* s : states)
    watched.attach(*s, *new first_of::watch(first));
  (void)owner->wait(first->event(), deadline);
  watched.detach();
  return ready_one(states);
}

} // namespace farcall::detail
