#pragma once

#include <farcall/base/counted.hpp>
#include <farcall/offload/future.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace farcall {
namespace detail {

/// Holds futures until all are ready: each one's continuation keeps it alive, and its end completes
/// the future of all.
template <class Futures>
class all_of : public counted {
 public:
  all_of(Futures futures, am::client* e)
      : futures_(std::move(futures)), out_(new local_state<Futures>(e)) {}
  all_of(const all_of&) = delete;
  all_of& operator=(const all_of&) = delete;
  ~all_of() {
    out_->value.emplace(std::move(futures_));
    out_->complete(nullptr);
  }

  [[nodiscard]] local_state<Futures>* out() const noexcept { return out_; }

  class waits_for_one final : public am::continuation {
   public:
    explicit waits_for_one(counted_ptr<all_of> all) noexcept : all_(std::move(all)) {}
    void run() noexcept override { delete this; }

   private:
    counted_ptr<all_of> all_;
  };

 private:
  Futures futures_;
  local_state<Futures>* out_;
};

/// The one engine that all depend on; null when all are ready from the start. Whoever waits for
/// several futures takes in the replies of one job, so they must belong to one.
[[nodiscard]] inline am::client* common_owner(std::span<am::completion* const> states) {
  am::client* common = nullptr;
  for (const am::completion* s : states) {
    am::client* const owner = s == nullptr ? nullptr : s->owner();
    if (common != nullptr && owner != nullptr && owner != common) {
      throw_different_jobs();
    }
    if (owner != nullptr) common = owner;
  }
  return common;
}

template <class T>
void require_all_valid(const std::vector<future<T>>& futures) {
  for (const future<T>& f : futures) {
    if (!f.valid()) throw error("when_all and when_any need futures that are not empty");
  }
}

[[nodiscard]] inline time_point later(time_point a, time_point b) noexcept { return a < b ? b : a; }

template <class T>
[[nodiscard]] time_point latest_deadline(const std::vector<future<T>>& futures) noexcept {
  time_point latest = time_point::min();
  for (const future<T>& f : futures)
    latest = later(latest, future_access::deadline(f));
  return futures.empty() ? no_deadline : latest;
}

/// Becomes ready with `futures` when all of `states`, which are theirs, are.
template <class Futures>
[[nodiscard]] future<Futures>
hold_until_ready(Futures futures, std::span<am::completion* const> states, time_point deadline) {
  const counted_ptr<all_of<Futures>> all(
      new all_of<Futures>(std::move(futures), common_owner(states)));
  auto made = future_access::make<Futures>(all->out(), deadline);
  for (am::completion* s : states)
    run_when_ready(s, new typename all_of<Futures>::waits_for_one(all));
  return made;
}

} // namespace detail

/// Becomes ready when all are; holds them, ready, in their order. Failures stay in the futures. Its
/// deadline is the latest of theirs.
/// Throws error for empty futures, and for futures of different jobs.
template <class... T>
[[nodiscard]] future<std::tuple<future<T>...>> when_all(future<T>... futures) {
  using result = std::tuple<future<T>...>;
  if ((!futures.valid() || ...)) {
    throw error("when_all and when_any need futures that are not empty");
  }
  const std::array<am::completion*, sizeof...(T)> states{detail::future_access::state(futures)...};
  time_point latest = time_point::min();
  ((latest = detail::later(latest, detail::future_access::deadline(futures))), ...);
  return detail::hold_until_ready(result(std::move(futures)...), states,
                                  sizeof...(T) == 0 ? no_deadline : latest);
}

/// The same for any number of futures of one type.
template <class T>
[[nodiscard]] future<std::vector<future<T>>> when_all(std::vector<future<T>> futures) {
  detail::require_all_valid(futures);
  std::vector<am::completion*> states;
  for (const future<T>& f : futures)
    states.push_back(detail::future_access::state(f));
  const time_point latest = detail::latest_deadline(futures);
  return detail::hold_until_ready(std::move(futures), states, latest);
}

/// What when_any() gives.
template <class T>
struct when_any_result {
  std::size_t index = 0;          ///< of a future that is ready
  std::vector<future<T>> futures; ///< all of them, in their order
};

namespace detail {

/// The first ready future decides; the others are given back as they are.
template <class T>
class any_of : public counted {
 public:
  any_of(std::vector<future<T>> futures, am::client* e)
      : futures_(std::move(futures)), watches_(futures_.size()),
        out_(new local_state<when_any_result<T>>(e)) {}

  [[nodiscard]] future<when_any_result<T>> start() {
    auto made = future_access::make<when_any_result<T>>(out_, latest_deadline(futures_));
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      auto* w = new watch(counted_ptr<any_of>(this), i);
      watches_[i] = w;
      run_when_ready(future_access::state(futures_[i]), w);
    }
    step(set_up);
    return made;
  }

 private:
  static constexpr unsigned set_up = 1;
  static constexpr unsigned decided = 2;

  class watch final : public am::continuation {
   public:
    watch(counted_ptr<any_of> all, std::size_t index) : all_(std::move(all)), index_(index) {}
    void run() noexcept override {
      all_->ready(index_);
      delete this;
    }

   private:
    counted_ptr<any_of> all_;
    std::size_t index_;
  };

  void ready(std::size_t index) noexcept {
    std::size_t none = SIZE_MAX;
    if (winner_.compare_exchange_strong(none, index, std::memory_order_acq_rel)) step(decided);
  }

  /// The second of the two steps finishes.
  void step(unsigned which) noexcept {
    if (steps_.fetch_or(which, std::memory_order_acq_rel) == 0) return;
    const std::size_t winner = winner_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      // The others must be free to be waited for again. One that cannot be detached is running, or
      // has run, and deletes itself.
      am::completion* state = future_access::state(futures_[i]);
      if (i != winner && state != nullptr && state->detach(watches_[i])) delete watches_[i];
    }
    out_->value.emplace(when_any_result<T>{winner, std::move(futures_)});
    out_->complete(nullptr);
  }

  std::vector<future<T>> futures_;
  std::vector<watch*> watches_;
  local_state<when_any_result<T>>* out_;
  std::atomic<std::size_t> winner_{SIZE_MAX};
  std::atomic<unsigned> steps_{0};
};

} // namespace detail

/// Becomes ready when one of them is. Its deadline is the latest of theirs. Throws error for an
/// empty vector, which would never be.
template <class T>
[[nodiscard]] future<when_any_result<T>> when_any(std::vector<future<T>> futures) {
  if (futures.empty()) throw error("when_any of no futures would never become ready");
  detail::require_all_valid(futures);
  std::vector<am::completion*> states;
  for (const future<T>& f : futures)
    states.push_back(detail::future_access::state(f));
  am::client* const e = detail::common_owner(states);
  const counted_ptr<detail::any_of<T>> any(new detail::any_of<T>(std::move(futures), e));
  return any->start();
}

} // namespace farcall
