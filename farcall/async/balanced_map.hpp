// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/map.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/error.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

/// fc::map() over several nodes, which take elements as fast as they run them.
namespace farcall {
namespace detail {

/// Progress callback that does nothing.
struct no_progress {
  void operator()(std::size_t /*done*/, std::size_t /*all*/) const noexcept {}
};

/// Range of the elements that one message carries, and its number in the order of the elements.
struct mapped_part {
  std::size_t number;
  std::size_t first;
  std::size_t count;
};

/// A map() over several nodes. The continuation of each message sends the next one to the same
/// node. The object lives until its last message has been replied to.
template <class F, class Progress>
class balanced_map final : public counted {
  using call = mapped<F>;
  using value = typename call::value;
  using results = typename call::types::results;

 public:
  balanced_map(F f, std::vector<value> elements, Progress progress, am::client* owner)
      : message_{std::move(f)}, elements_(std::move(elements)), progress_(std::move(progress)),
        out_(new local_state<results>(owner)) {}
  balanced_map(const balanced_map&) = delete;
  balanced_map& operator=(const balanced_map&) = delete;
  ~balanced_map() = default;

  /// Sends the first messages to all nodes. Call once. There must be elements.
  [[nodiscard]] future<results> start(std::span<const node> nodes) {
    future<results> made = future_access::make<results>(out_);
    streams_.reserve(per_node * nodes.size());
    for (std::size_t turn = 0; turn < per_node; ++turn) {
      for (const node& n : nodes)
        streams_.emplace_back(new stream(n));
    }
    for (const counted_ptr<stream>& s : streams_)
      send_next(*s);
    return made;
  }

 private:
  /// Number of messages that are under way to each node. With two, the next one has arrived when
  /// the node has run one.
  static constexpr std::size_t per_node = 2;

  /// Sequence of messages to one node. Each message is sent when the reply to the previous one has
  /// arrived. A node has `per_node` streams.
  struct stream final : am::continuation, counted {
    explicit stream(const node& n) : where(n) {}
    void run() noexcept override {
      const counted_ptr<balanced_map> it = std::move(all);
      it->arrive(*this);
    }

    node where;
    mapped_part part{};
    future<results> reply;           ///< guarded by mutex_; empty if no message is under way
    counted_ptr<balanced_map> all{}; ///< set while a message is under way
  };

  /// Takes the next elements, fewer and fewer of them towards the end, so that the nodes end at
  /// about the same time.
  [[nodiscard]] std::optional<mapped_part> take_part() {
    const std::lock_guard guard(mutex_);
    const std::size_t left = elements_.size() - taken_;
    if (is_over_ || left == 0) return std::nullopt;
    std::size_t count = left / (2 * streams_.size());
    if (count > mapped_at_once<value>) count = mapped_at_once<value>;
    if (count == 0) count = 1;
    const mapped_part part{parts_, taken_, count};
    ++parts_;
    taken_ += count;
    return part;
  }

  [[nodiscard]] future<results> send(const stream& s) {
    const std::span<value> elements = std::span(elements_).subspan(s.part.first, s.part.count);
    typename call::values given;
    if constexpr (is_bitwise<value>) {
      given = elements;
    } else {
      given.assign(std::make_move_iterator(elements.begin()),
                   std::make_move_iterator(elements.end()));
    }
    using caller = caller_for<const call&, typename call::values>;
    const call_place p = place_of(s.where);
    am::pending_call* const slot =
        p.messages.takes_stops()
            ? caller::template call<call_mode::stoppable>(p.messages, p.job.context, p.deadline,
                                                          message_, given)
            : caller::template call<call_mode::awaited>(p.messages, p.job.context, p.deadline,
                                                        message_, given);
    return future_access::make<results>(slot);
  }

  void send_next(stream& s) noexcept {
    try {
      const std::optional<mapped_part> part = take_part();
      if (!part) return;
      s.part = *part;
      future<results> reply = send(s);
      am::completion* const state = future_access::state(reply);
      {
        const std::lock_guard guard(mutex_);
        // If another message has failed meanwhile, the reply is dropped.
        if (is_over_) return future_access::stop(reply);
        s.all = counted_ptr<balanced_map>(this);
        s.reply = std::move(reply);
      }
      state->attach(&s);
    } catch (...) {
      fail(caught_exception());
    }
  }

  void arrive(stream& s) noexcept {
    future<results> reply;
    {
      const std::lock_guard guard(mutex_);
      reply = std::move(s.reply);
      if (is_over_) return;
    }
    bool is_last = false;
    try {
      const std::size_t done = store(s.part, reply);
      progress_(done, elements_.size());
      is_last = done == elements_.size();
    } catch (...) {
      return fail(caught_exception());
    }
    if (is_last) {
      succeed();
    } else {
      send_next(s);
    }
  }

  /// Stores the results of a message. Returns the number of elements that are done.
  [[nodiscard]] std::size_t store(const mapped_part& part, future<results>& reply) {
    if constexpr (std::is_void_v<results>) {
      future_access::get_now(reply);
      const std::lock_guard guard(mutex_);
      return done_ += part.count;
    } else {
      results some = future_access::get_now(reply);
      const std::lock_guard guard(mutex_);
      if (results_.size() <= part.number) results_.resize(parts_);
      results_[part.number] = std::move(some);
      return done_ += part.count;
    }
  }

  void succeed() noexcept {
    {
      const std::lock_guard guard(mutex_);
      if (std::exchange(is_over_, true)) return;
    }
    complete_with(*out_, [&]() -> results {
      if constexpr (!std::is_void_v<results>) {
        results joined;
        joined.reserve(elements_.size());
        for (results& some : results_)
          joined.insert(joined.end(), std::make_move_iterator(some.begin()),
                        std::make_move_iterator(some.end()));
        return joined;
      }
    });
  }

  /// Ends the map() with its first failure. Stops the messages under way.
  void fail(std::exception_ptr why) noexcept {
    {
      const std::lock_guard guard(mutex_);
      if (std::exchange(is_over_, true)) return;
    }
    for (const counted_ptr<stream>& s : streams_) {
      // Declared before the lock, so that they are released after it.
      future<results> reply;
      counted_ptr<balanced_map> held;
      const std::lock_guard guard(mutex_);
      if (!s->reply.valid() || !future_access::state(s->reply)->detach(s.get())) continue;
      reply = std::move(s->reply);
      held = std::move(s->all);
      future_access::stop(reply);
    }
    out_->complete(std::move(why));
  }

  const call message_;
  std::vector<value> elements_;
  Progress progress_;
  local_state<results>* out_; ///< completed once, by the thread that sets is_over_
  std::vector<counted_ptr<stream>> streams_;
  std::mutex mutex_;      ///< guards the following members
  std::size_t taken_ = 0; ///< number of elements that were sent
  std::size_t parts_ = 0; ///< number of messages that were sent
  std::size_t done_ = 0;  ///< number of elements that have results
  bool is_over_ = false;
  /// Results of each message; unused if there are none.
  std::vector<std::conditional_t<std::is_void_v<results>, char, results>> results_;
};

template <class Nodes>
concept several_nodes = std::convertible_to<const Nodes&, std::span<const node>>;

} // namespace detail

/// Calls `f` once for each element of `elements`, on any of the nodes, and returns one future of
/// all results, like the overload for one node. A node gets more elements when it has run the ones
/// before, so that a fast node runs more of them than a slow one. Messages have fewer elements
/// towards the end. The elements are copied, or moved if they are of another type than f's
/// parameter. The order of the results is the order of the elements.
///
/// After the first exception, no further elements are sent, messages that are under way are stopped
/// (stop_token_of_call()), and the future throws that exception. `progress(done, all)` is called
/// after each message with the number of elements that have results, on the thread that takes the
/// reply. If several threads take replies, calls may overlap. If `progress` throws, the future
/// throws that exception. Elements are sent only while a thread takes replies, for instance because
/// it waits for the future. Throws error if there are no nodes, or nodes of different jobs.
template <detail::several_nodes Nodes, class F, class Elements,
          class Progress = detail::no_progress>
  requires(detail::iterable<Elements> && std::invocable<Progress&, std::size_t, std::size_t>)
[[nodiscard]] auto map(const Nodes& nodes, F f, Elements&& elements, Progress progress = {}) {
  using call = detail::mapped<F>;
  using value = typename call::value;
  using state = detail::balanced_map<F, Progress>;
  static_assert(std::convertible_to<detail::element_of<Elements>, value>,
                "farcall: the elements do not convert to the parameter of what fc::map calls");
  static_assert(detail::can_be_collected<value>,
                "farcall: the parameter of what fc::map calls is a bool, and std::vector<bool> is "
                "not packable; take a char");
  const std::span<const node> all(nodes);
  if (all.empty()) throw error("map() needs at least one node to call");
  for (const node& n : all) {
    if (n.job() == nullptr) detail::throw_no_node();
    if (n.job() != all.front().job()) detail::throw_different_jobs();
  }
  std::vector<value> values;
  for (auto&& element : elements)
    values.push_back(static_cast<value>(std::forward<decltype(element)>(element)));
  if (values.empty()) return detail::ready_future<typename call::types::results>();
  const counted_ptr<state> running(
      new state(std::move(f), std::move(values), std::move(progress), all.front().job()->client));
  return running->start(all);
}

} // namespace farcall
