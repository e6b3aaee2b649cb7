#pragma once

#include <farcall/base/counted.hpp>
#include <farcall/offload/future.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
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

[[noreturn]] inline void throw_empty_among_futures() {
  throw error("when_all, when_any and the like need futures that are not empty");
}

template <class T>
void require_all_valid(const std::vector<future<T>>& futures) {
  for (const future<T>& f : futures) {
    if (!f.valid()) throw_empty_among_futures();
  }
}

template <class T>
[[nodiscard]] std::vector<am::completion*> states_of(const std::vector<future<T>>& futures) {
  std::vector<am::completion*> states;
  for (const future<T>& f : futures)
    states.push_back(future_access::state(f));
  return states;
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
  if ((!futures.valid() || ...)) detail::throw_empty_among_futures();
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
  const std::vector<am::completion*> states = detail::states_of(futures);
  const time_point latest = detail::latest_deadline(futures);
  return detail::hold_until_ready(std::move(futures), states, latest);
}

/// What when_some() gives.
template <class T>
struct when_some_result {
  std::vector<std::size_t>
      indices;                    ///< of futures that are ready, in the order in which they became
  std::vector<future<T>> futures; ///< all of them, in their order
};

/// What when_any() gives.
template <class T>
struct when_any_result {
  std::size_t index = 0;          ///< of a future that is ready
  std::vector<future<T>> futures; ///< all of them, in their order
};

namespace detail {

/// The first `needed` ready futures decide; the others are given back as they are. `Result` is
/// when_some_result, or when_any_result, which needs one.
template <class T, class Result>
class some_of : public counted {
 public:
  some_of(std::size_t needed, std::vector<future<T>> futures, am::client* e)
      : needed_(needed), futures_(std::move(futures)), watches_(futures_.size()), winners_(needed),
        out_(new local_state<Result>(e)) {}

  [[nodiscard]] future<Result> start() {
    auto made = future_access::make<Result>(out_, latest_deadline(futures_));
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      auto* w = new watch(counted_ptr<some_of>(this), i);
      watches_[i] = w;
      run_when_ready(future_access::state(futures_[i]), w);
    }
    if (needed_ == 0) step(decided);
    step(set_up);
    return made;
  }

 private:
  static constexpr unsigned set_up = 1;
  static constexpr unsigned decided = 2;

  class watch final : public am::continuation {
   public:
    watch(counted_ptr<some_of> all, std::size_t index) : all_(std::move(all)), index_(index) {}
    void run() noexcept override {
      all_->ready(index_);
      delete this;
    }

   private:
    counted_ptr<some_of> all_;
    std::size_t index_;
  };

  void ready(std::size_t index) noexcept {
    // Relaxed: it only gives out places.
    const std::size_t place = places_taken_.fetch_add(1, std::memory_order_relaxed);
    if (place >= needed_) return;
    winners_[place] = index;
    // Acquire-release: the last one sees what all others wrote.
    if (winners_known_.fetch_add(1, std::memory_order_acq_rel) + 1 == needed_) step(decided);
  }

  /// The second of the two steps finishes.
  void step(unsigned which) noexcept {
    if (steps_.fetch_or(which, std::memory_order_acq_rel) == 0) return;
    for (const std::size_t winner : winners_)
      watches_[winner] = nullptr;
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      // The others must be free to be waited for again. One that cannot be detached is running, or
      // has run, and deletes itself.
      am::completion* state = future_access::state(futures_[i]);
      if (watches_[i] != nullptr && state != nullptr && state->detach(watches_[i]))
        delete watches_[i];
    }
    if constexpr (std::is_same_v<Result, when_any_result<T>>) {
      out_->value.emplace(Result{winners_[0], std::move(futures_)});
    } else {
      out_->value.emplace(Result{std::move(winners_), std::move(futures_)});
    }
    out_->complete(nullptr);
  }

  const std::size_t needed_; ///< late ones ask when winners_ has gone to the result
  std::vector<future<T>> futures_;
  std::vector<watch*> watches_;
  std::vector<std::size_t> winners_; ///< each written by whoever took its place
  local_state<Result>* out_;
  std::atomic<std::size_t> places_taken_{0};
  std::atomic<std::size_t> winners_known_{0};
  std::atomic<unsigned> steps_{0};
};

template <class Result, class T>
[[nodiscard]] future<Result> start_some_of(std::size_t needed, std::vector<future<T>> futures) {
  require_all_valid(futures);
  am::client* const e = common_owner(states_of(futures));
  const counted_ptr<some_of<T, Result>> some(new some_of<T, Result>(needed, std::move(futures), e));
  return some->start();
}

} // namespace detail

/// Becomes ready when one of them is. Its deadline is the latest of theirs. Throws error for an
/// empty vector, which would never be.
template <class T>
[[nodiscard]] future<when_any_result<T>> when_any(std::vector<future<T>> futures) {
  if (futures.empty()) throw error("when_any of no futures would never become ready");
  return detail::start_some_of<when_any_result<T>>(1, std::move(futures));
}

/// Becomes ready when `n` of them are, also with failures. Its deadline is the latest of theirs.
/// Throws error when there are fewer than `n`, which would never be, and as when_all().
template <class T>
[[nodiscard]] future<when_some_result<T>> when_some(std::size_t n, std::vector<future<T>> futures) {
  if (futures.size() < n)
    throw error("when_some of fewer futures than are to become ready would never become so");
  return detail::start_some_of<when_some_result<T>>(n, std::move(futures));
}

namespace detail {

/// Gathers the values of futures; the first failure ends it at once. Lives until the last future is
/// ready, whoever still listens. `Slots` holds the values as they come, `Result` is what they make.
template <class Slots, class Result>
class values_of : public counted {
 public:
  values_of(Slots room, std::size_t missing, am::client* e)
      : slots(std::move(room)), missing_(missing), out_(new local_state<Result>(e)) {}
  values_of(const values_of&) = delete;
  values_of& operator=(const values_of&) = delete;
  ~values_of() {
    // Nothing was started.
    if (out_ != nullptr) out_->release();
  }

  [[nodiscard]] local_state<Result>* out() const noexcept { return out_; }

  /// The value of one future is in its slot. `collect` makes the result of them.
  template <class Collect>
  void succeed(const Collect& collect) noexcept {
    // Acquire-release: the last one sees the values of all others.
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      complete_with(*std::exchange(out_, nullptr), [&] { return collect(slots); });
  }
  void fail(std::exception_ptr why) noexcept {
    // Relaxed: only who is first matters. With a failure, something stays missing.
    if (!has_failed_.exchange(true, std::memory_order_relaxed))
      std::exchange(out_, nullptr)->complete(std::move(why));
  }
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);
  }

  Slots slots; ///< each used by its future alone, until none is missing

 private:
  std::atomic<std::size_t> missing_;
  std::atomic<bool> has_failed_{false};
  local_state<Result>* out_; ///< null once it is complete
};

/// Brings the value of one future into its slot.
template <class T, class Values, class Collect>
class value_watch final : public am::continuation {
 public:
  value_watch(future<T> from, counted_ptr<Values> all, std::optional<stored<T>>& slot)
      : from_(std::move(from)), all_(std::move(all)), slot_(slot) {}

  void run() noexcept override {
    if (!all_->has_failed()) bring();
    delete this;
  }

 private:
  void bring() noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        from_.get();
      } else {
        slot_.emplace(from_.get());
      }
    } catch (...) {
      all_->fail(std::current_exception());
      return;
    }
    all_->succeed(Collect{});
  }

  future<T> from_;
  counted_ptr<Values> all_;
  std::optional<stored<T>>& slot_;
};

template <class Collect, class Values, class T>
void watch_value(future<T> from, const counted_ptr<Values>& all, std::optional<stored<T>>& slot) {
  am::completion* const state = future_access::state(from);
  run_when_ready(state, new value_watch<T, Values, Collect>(std::move(from), all, slot));
}

template <class T>
using values_in_vector = std::conditional_t<std::is_void_v<T>, void, std::vector<stored<T>>>;

template <class T>
struct collect_vector {
  values_in_vector<T> operator()(std::vector<std::optional<stored<T>>>& slots) const {
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(slots.size());
      for (auto& slot : slots)
        values.push_back(std::move(*slot));
      return values;
    }
  }
};

/// A tuple of one value, or of none for void.
template <class T>
[[nodiscard]] auto tuple_of_value([[maybe_unused]] std::optional<stored<T>>& slot) {
  if constexpr (std::is_void_v<T>) {
    return std::tuple<>();
  } else {
    return std::tuple<T>(std::move(*slot));
  }
}

template <class... T>
struct collect_tuple {
  auto operator()(std::tuple<std::optional<stored<T>>...>& slots) const {
    return std::apply([](auto&... slot) { return std::tuple_cat(tuple_of_value<T>(slot)...); },
                      slots);
  }
};

} // namespace detail

/// Becomes ready with the values of all, in their order; with the first failure, at once, while the
/// others go on and nobody hears of them. Futures of void add nothing. Its deadline is the latest
/// of theirs. Throws as when_all(). As folly's collect().
template <class... T>
[[nodiscard]] auto when_all_values(future<T>... futures) {
  using slots = std::tuple<std::optional<detail::stored<T>>...>;
  using collect = detail::collect_tuple<T...>;
  using result = std::invoke_result_t<collect, slots&>;
  if ((!futures.valid() || ...)) detail::throw_empty_among_futures();
  if constexpr (sizeof...(T) == 0) {
    return make_ready_future(result());
  } else {
    using values = detail::values_of<slots, result>;
    const std::array<am::completion*, sizeof...(T)> states{
        detail::future_access::state(futures)...};
    time_point latest = time_point::min();
    ((latest = detail::later(latest, detail::future_access::deadline(futures))), ...);
    const counted_ptr<values> all(new values(slots(), sizeof...(T), detail::common_owner(states)));
    auto made = detail::future_access::make<result>(all->out(), latest);
    std::apply(
        [&](auto&... slot) { (detail::watch_value<collect>(std::move(futures), all, slot), ...); },
        all->slots);
    return made;
  }
}

/// The same for any number of futures of one type: the future of a vector, of nothing for void.
template <class T>
[[nodiscard]] future<detail::values_in_vector<T>> when_all_values(std::vector<future<T>> futures) {
  using slots = std::vector<std::optional<detail::stored<T>>>;
  using result = detail::values_in_vector<T>;
  using values = detail::values_of<slots, result>;
  detail::require_all_valid(futures);
  if (futures.empty()) return detail::ready_future<result>();
  const counted_ptr<values> all(new values(slots(futures.size()), futures.size(),
                                           detail::common_owner(detail::states_of(futures))));
  auto made = detail::future_access::make<result>(all->out(), detail::latest_deadline(futures));
  for (std::size_t i = 0; i < futures.size(); ++i)
    detail::watch_value<detail::collect_vector<T>>(std::move(futures[i]), all, all->slots[i]);
  return made;
}

} // namespace farcall
