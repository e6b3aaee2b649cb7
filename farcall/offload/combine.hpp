#pragma once

#include <farcall/offload/future.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace farcall {
namespace detail {

/// Counts futures down and completes with all of them.
template <class Result>
struct all_of {
  explicit all_of(Result futures, std::size_t count, am::engine* e)
      : result(std::move(futures)), left(count + 1), out(new local_state<Result>(e)) {}

  void one_ready() noexcept {
    // Acquire-release: the last one sees all results.
    if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      out->value.emplace(std::move(result));
      out->complete(nullptr);
      delete this;
    }
  }

  Result result;
  std::atomic<std::size_t> left; ///< one more than futures, for the set-up
  local_state<Result>* out;
};

template <class Result>
class count_down final : public am::continuation {
 public:
  explicit count_down(all_of<Result>& all) noexcept : all_(all) {}
  void run() noexcept override {
    all_.one_ready();
    delete this;
  }

 private:
  all_of<Result>& all_;
};

/// The one engine that all depend on; null when all are ready from the start. Whoever waits for
/// several futures takes in the answers of one job, so they must belong to one.
template <class States>
[[nodiscard]] am::engine* common_owner(const States& states) {
  am::engine* common = nullptr;
  for (const am::completion* s : states) {
    am::engine* const owner = s == nullptr ? nullptr : s->owner();
    if (common != nullptr && owner != nullptr && owner != common) {
      throw error("futures of different jobs cannot be combined; wait for them one by one");
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

} // namespace detail

/// Becomes ready when all are; holds them, ready, in their order. Failures stay in the futures.
/// Throws error for empty futures, and for futures of different jobs.
template <class... T>
[[nodiscard]] future<std::tuple<future<T>...>> when_all(future<T>... futures) {
  using result = std::tuple<future<T>...>;
  if ((!futures.valid() || ...)) {
    throw error("when_all and when_any need futures that are not empty");
  }
  const std::array<am::completion*, sizeof...(T)> states{detail::future_access::state(futures)...};
  am::engine* const e = detail::common_owner(states);
  auto* all = new detail::all_of<result>(result(std::move(futures)...), sizeof...(T), e);
  auto made = detail::future_access::make<result>(all->out);
  for (am::completion* s : states) {
    detail::run_when_ready<void>(s, new detail::count_down<result>(*all));
  }
  all->one_ready();
  return made;
}

template <class T>
[[nodiscard]] future<std::vector<future<T>>> when_all(std::vector<future<T>> futures) {
  using result = std::vector<future<T>>;
  detail::require_all_valid(futures);
  std::vector<am::completion*> states;
  for (const future<T>& f : futures)
    states.push_back(detail::future_access::state(f));
  am::engine* const e = detail::common_owner(states);
  auto* all = new detail::all_of<result>(std::move(futures), states.size(), e);
  auto made = detail::future_access::make<result>(all->out);
  for (am::completion* s : states) {
    detail::run_when_ready<void>(s, new detail::count_down<result>(*all));
  }
  all->one_ready();
  return made;
}

template <class T>
struct when_any_result {
  std::size_t index = 0;          ///< of a future that is ready
  std::vector<future<T>> futures; ///< all of them, in their order
};

namespace detail {

/// The first ready future decides; the others are given back as they are.
template <class T>
class any_of : public std::enable_shared_from_this<any_of<T>> {
 public:
  any_of(std::vector<future<T>> futures, am::engine* e)
      : futures_(std::move(futures)), watches_(futures_.size()),
        out_(new local_state<when_any_result<T>>(e)) {}

  [[nodiscard]] future<when_any_result<T>> start() {
    auto made = future_access::make<when_any_result<T>>(out_);
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      auto* w = new watch(this->shared_from_this(), i);
      watches_[i] = w;
      run_when_ready<T>(future_access::state(futures_[i]), w);
    }
    step(set_up);
    return made;
  }

 private:
  static constexpr unsigned set_up = 1;
  static constexpr unsigned decided = 2;

  class watch final : public am::continuation {
   public:
    watch(std::shared_ptr<any_of> all, std::size_t index) : all_(std::move(all)), index_(index) {}
    void run() noexcept override {
      all_->ready(index_);
      delete this;
    }

   private:
    std::shared_ptr<any_of> all_;
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

/// Becomes ready when one of them is. Throws error for an empty vector, which would never be.
template <class T>
[[nodiscard]] future<when_any_result<T>> when_any(std::vector<future<T>> futures) {
  if (futures.empty()) throw error("when_any of no futures would never become ready");
  detail::require_all_valid(futures);
  std::vector<am::completion*> states;
  for (const future<T>& f : futures)
    states.push_back(detail::future_access::state(f));
  am::engine* const e = detail::common_owner(states);
  return std::make_shared<detail::any_of<T>>(std::move(futures), e)->start();
}

} // namespace farcall
