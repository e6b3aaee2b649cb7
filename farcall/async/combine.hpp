// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/async/ready_or_late.hpp>
#include <farcall/base/counted.hpp>

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

/// A future's state and deadline.
struct timed_state {
  am::completion* state = nullptr;
  time_point deadline = no_deadline;
};

template <class T>
[[nodiscard]] timed_state timed_state_of(const future<T>& f) noexcept {
  return {future_access::state(f), future_access::deadline(f)};
}

/// Holds futures until each of them is ready or its deadline has passed. The continuation of each
/// future holds a reference to this object. After the last continuation has run, the destructor
/// completes the future that when_all() has returned.
template <class Futures>
class all_of : public counted {
 public:
  all_of(Futures futures, am::client* e)
      : futures_(std::move(futures)), out_(new local_state<Futures>(e)) {}
  all_of(const all_of&) = delete;
  all_of& operator=(const all_of&) = delete;
  ~all_of() {
    for (watched& w : watched_)
      (void)w.watch.end(w.state, nullptr);
    out_->value.emplace(std::move(futures_));
    out_->complete(nullptr);
  }

  /// Starts to wait for the futures; call once. Throws std::bad_alloc and std::system_error.
  void watch(std::span<const timed_state> states) {
    watched_.reserve(states.size());
    for (const timed_state& s : states)
      watched_.push_back({s.state, ready_or_late(s.state, s.deadline)});
    const counted_ptr<all_of> self(this);
    for (watched& w : watched_)
      w.watch.begin(w.state, *new waits_for_one(self));
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
  struct watched {
    am::completion* state;
    ready_or_late watch;
  };

  Futures futures_;
  std::vector<watched> watched_;
  local_state<Futures>* out_;
};

/// Returns the client of the job to which the futures belong. Returns null if no future knows its
/// job, for instance because all futures were ready from the start. Throws error if the futures
/// belong to several jobs, because a thread that waits for them takes the replies of one job only.
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

template <class T>
[[nodiscard]] std::vector<timed_state> timed_states_of(const std::vector<future<T>>& futures) {
  std::vector<timed_state> states;
  for (const future<T>& f : futures)
    states.push_back(timed_state_of(f));
  return states;
}

/// Returns a future that becomes ready, with `futures` as its value, once all of `states` are ready
/// or late. `states` are the states of `futures`.
template <class Futures>
[[nodiscard]] future<Futures> hold_until_ready(Futures futures, am::client* owner,
                                               std::span<const timed_state> states) {
  const counted_ptr<all_of<Futures>> all(new all_of<Futures>(std::move(futures), owner));
  auto made = future_access::make<Futures>(all->out());
  all->watch(states);
  return made;
}

} // namespace detail

/// Returns a future that becomes ready when all the given futures are ready. The value of the
/// returned future is a tuple of the given futures in their order. A failure of a given future
/// stays in that future. Each given future keeps its deadline; if its deadline has passed, the
/// future counts as ready, and its get() throws timeout. Throws error for empty futures, and for
/// futures of different jobs. If a future has a deadline, also throws std::bad_alloc, and
/// std::system_error if no thread can be made.
template <class... T>
[[nodiscard]] future<std::tuple<future<T>...>> when_all(future<T>... futures) {
  using result = std::tuple<future<T>...>;
  if ((!futures.valid() || ...)) detail::throw_empty_among_futures();
  const std::array<am::completion*, sizeof...(T)> states{detail::future_access::state(futures)...};
  const std::array<detail::timed_state, sizeof...(T)> timed{detail::timed_state_of(futures)...};
  am::client* const owner = detail::common_owner(states);
  return detail::hold_until_ready(result(std::move(futures)...), owner, timed);
}

/// Returns a future that becomes ready when all futures in a vector are, like the overload above.
template <class T>
[[nodiscard]] future<std::vector<future<T>>> when_all(std::vector<future<T>> futures) {
  detail::require_all_valid(futures);
  am::client* const owner = detail::common_owner(detail::states_of(futures));
  const std::vector<detail::timed_state> timed = detail::timed_states_of(futures);
  return detail::hold_until_ready(std::move(futures), owner, timed);
}

/// Result of when_some().
template <class T>
struct when_some_result {
  std::vector<std::size_t> indices; ///< indices of futures that are ready, in the order in which
                                    ///< they became ready
  std::vector<future<T>> futures;   ///< all of the futures, in their order
};

/// Result of when_any().
template <class T>
struct when_any_result {
  std::size_t index = 0;          ///< index of a future that is ready
  std::vector<future<T>> futures; ///< all of the futures, in their order
};

namespace detail {

/// Watches futures until `needed` of them are ready. Then completes the result with all futures,
/// which are unchanged. `Result` is when_some_result, or when_any_result, for which `needed` is
/// always 1.
template <class T, class Result>
class some_of : public counted {
 public:
  some_of(std::size_t needed, std::vector<future<T>> futures, am::client* e)
      : needed_(needed), futures_(std::move(futures)), watches_(futures_.size()), winners_(needed),
        out_(new local_state<Result>(e)) {
    timed_.reserve(futures_.size());
    for (const future<T>& f : futures_)
      timed_.emplace_back(future_access::state(f), future_access::deadline(f));
  }

  [[nodiscard]] future<Result> start() {
    auto made = future_access::make<Result>(out_);
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      auto* w = new watch(counted_ptr<some_of>(this), i);
      watches_[i] = w;
      timed_[i].begin(future_access::state(futures_[i]), *w);
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
    // Relaxed, because the counter only gives each ready future its index in winners_.
    const std::size_t place = places_taken_.fetch_add(1, std::memory_order_relaxed);
    if (place >= needed_) return;
    winners_[place] = index;
    // Acquire-release, so that the thread that adds the last winner sees the indices that all other
    // threads wrote.
    if (winners_known_.fetch_add(1, std::memory_order_acq_rel) + 1 == needed_) step(decided);
  }

  /// Completes the result once both steps are done: all watches are attached, and enough futures
  /// are ready.
  void step(unsigned which) noexcept {
    if (steps_.fetch_or(which, std::memory_order_acq_rel) == 0) return;
    for (const std::size_t winner : winners_)
      watches_[winner] = nullptr;
    for (std::size_t i = 0; i < futures_.size(); ++i) {
      // Detach all watches, so that the caller can wait for each future again. A watch that cannot
      // be detached is running or has run, and deletes itself.
      if (timed_[i].end(future_access::state(futures_[i]), watches_[i])) delete watches_[i];
    }
    if constexpr (std::is_same_v<Result, when_any_result<T>>) {
      out_->value.emplace(Result{winners_[0], std::move(futures_)});
    } else {
      out_->value.emplace(Result{std::move(winners_), std::move(futures_)});
    }
    out_->complete(nullptr);
  }

  /// Number of futures that must be ready. Futures that become ready later still need the number,
  /// when winners_ was already moved to the result.
  const std::size_t needed_;
  std::vector<future<T>> futures_;
  std::vector<ready_or_late> timed_;
  std::vector<watch*> watches_;
  std::vector<std::size_t> winners_; ///< indices of the first ready futures; each element is
                                     ///< written by one thread
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

/// Returns a future that becomes ready when one of the given futures is ready. A future whose
/// deadline has passed counts as ready, like for when_all(). Throws error for an empty vector,
/// which would never become ready, and what when_all() throws.
template <class T>
[[nodiscard]] future<when_any_result<T>> when_any(std::vector<future<T>> futures) {
  if (futures.empty()) throw error("when_any of no futures would never become ready");
  return detail::start_some_of<when_any_result<T>>(1, std::move(futures));
}

/// Returns a future that becomes ready when `n` of the given futures are ready. Failed futures, and
/// futures whose deadlines have passed, count as ready, like for when_all(). Throws error if there
/// are fewer than `n` futures, and what when_all() throws.
template <class T>
[[nodiscard]] future<when_some_result<T>> when_some(std::size_t n, std::vector<future<T>> futures) {
  if (futures.size() < n)
    throw error("when_some of fewer futures than are to become ready would never become so");
  return detail::start_some_of<when_some_result<T>>(n, std::move(futures));
}

namespace detail {

/// Collects the values of futures in `Slots`. The last value makes the `Result` from the slots. The
/// first failure of a future completes the result at once. The object lives until the last future
/// is ready, even if the result was dropped, because each future's continuation refers to it.
template <class Slots, class Result>
class values_of : public counted {
 public:
  values_of(Slots space, std::size_t missing, am::client* e)
      : slots(std::move(space)), missing_(missing), out_(new local_state<Result>(e)) {}
  values_of(const values_of&) = delete;
  values_of& operator=(const values_of&) = delete;
  ~values_of() {
    // If no future was started, the result was never completed, so release it here.
    if (out_ != nullptr) out_->release();
  }

  [[nodiscard]] local_state<Result>* out() const noexcept { return out_; }

  /// Counts a future whose value is in its slot. After the last future, `collect` makes the result
  /// from the slots.
  template <class Collect>
  void succeed(const Collect& collect) noexcept {
    // Acquire-release, so that the thread that counts the last value sees the values of all other
    // threads.
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      complete_with(*std::exchange(out_, nullptr), [&] { return collect(slots); });
  }
  void fail(std::exception_ptr why) noexcept {
    // Relaxed, because only the first exchange has an effect. After a failure, `missing_` never
    // reaches 0.
    if (!has_failed_.exchange(true, std::memory_order_relaxed))
      std::exchange(out_, nullptr)->complete(std::move(why));
  }
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);
  }

  Slots slots; ///< each slot is written only by its future, until no value is missing

 private:
  std::atomic<std::size_t> missing_;
  std::atomic<bool> has_failed_{false};
  local_state<Result>* out_; ///< null once the result is complete
};

/// Continuation of one future, which moves the future's value into its slot.
template <class T, class Values, class Collect>
class value_watch final : public am::continuation {
 public:
  value_watch(future<T> from, counted_ptr<Values> all, std::optional<stored<T>>& slot)
      : from_(std::move(from)), all_(std::move(all)), slot_(slot),
        timed_(future_access::state(from_), future_access::deadline(from_)) {}

  void begin() noexcept { timed_.begin(future_access::state(from_), *this); }

  void run() noexcept override {
    (void)timed_.end(future_access::state(from_), nullptr);
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
  ready_or_late timed_; ///< declared after from_, so that timed_ is destroyed before from_
};

template <class Collect, class Values, class T>
void watch_value(future<T> from, const counted_ptr<Values>& all, std::optional<stored<T>>& slot) {
  (new value_watch<T, Values, Collect>(std::move(from), all, slot))->begin();
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

/// Returns a tuple of one value, or an empty tuple for a future of void.
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

/// Returns a future that becomes ready with the values of all given futures, in their order. The
/// first failure of a given future makes the returned future ready at once, with that failure. The
/// other calls then go on, and their results are dropped. A deadline that passes is a failure.
/// Futures of void add no value. Throws what when_all() throws. Like folly's collect().
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
    const counted_ptr<values> all(new values(slots(), sizeof...(T), detail::common_owner(states)));
    auto made = detail::future_access::make<result>(all->out());
    std::apply(
        [&](auto&... slot) { (detail::watch_value<collect>(std::move(futures), all, slot), ...); },
        all->slots);
    return made;
  }
}

/// Returns a future of the values of all futures in a vector, like the overload above. Its value is
/// a vector, or void.
template <class T>
[[nodiscard]] future<detail::values_in_vector<T>> when_all_values(std::vector<future<T>> futures) {
  using slots = std::vector<std::optional<detail::stored<T>>>;
  using result = detail::values_in_vector<T>;
  using values = detail::values_of<slots, result>;
  detail::require_all_valid(futures);
  if (futures.empty()) return detail::ready_future<result>();
  const counted_ptr<values> all(new values(slots(futures.size()), futures.size(),
                                           detail::common_owner(detail::states_of(futures))));
  auto made = detail::future_access::make<result>(all->out());
  for (std::size_t i = 0; i < futures.size(); ++i)
    detail::watch_value<detail::collect_vector<T>>(std::move(futures[i]), all, all->slots[i]);
  return made;
}

} // namespace farcall
