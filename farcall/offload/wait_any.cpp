#include <farcall/offload/combine.hpp>
#include <farcall/offload/wait_any.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

namespace farcall::detail {
namespace {

/// An event that the first of several continuations completes.
class first_of : public counted {
 public:
  explicit first_of(am::client& owner) : event_(new local_state<void>(&owner)) {}
  first_of(const first_of&) = delete;
  first_of& operator=(const first_of&) = delete;
  /// Nobody looks at it any more.
  ~first_of() {
    complete();
    event_->release();
  }

  void complete() noexcept {
    // Relaxed: only who is first matters; the event orders the rest.
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
  // Not ready and without an owner: a coroutine that waits for nothing of farcall's.
  if (owner == nullptr) throw error("these futures wait for nothing of farcall's");
  const counted_ptr<first_of> first(new first_of(*owner));
  std::vector<am::continuation*> watches;
  watches.reserve(states.size());
  for (am::completion* s : states) {
    auto* const w = new first_of::watch(first);
    watches.push_back(w);
    s->attach(w);
  }
  (void)owner->wait(first->event(), deadline);
  for (std::size_t i = 0; i < states.size(); ++i) {
    // One that cannot be detached is running, or has run, and deletes itself.
    if (states[i]->detach(watches[i])) delete watches[i];
  }
  return ready_one(states);
}

} // namespace farcall::detail
