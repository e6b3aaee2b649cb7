// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/stack_state.hpp>
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {
namespace detail {

/// Signature of the function that map() calls. The function has one parameter.
template <class S>
struct mapped_signature {
  static_assert(!sizeof(S), "farcall: fc::map calls a function of one parameter");
};
template <class R, class P>
struct mapped_signature<signature<R, P>> {
  static_assert(!comes_later<R> && !is_given_by_reply<R>,
                "farcall: fc::map needs a function that returns its result itself; call functions "
                "that reply later by async()");
  static_assert(!std::is_same_v<std::remove_cvref_t<R>, bool>,
                "farcall: std::vector<bool> is not packable; return a char");
  using result = std::remove_cvref_t<R>;
  using value = typename packed_parameter<P>::type;
  using results = std::conditional_t<std::is_void_v<R>, void, std::vector<stored<result>>>;
};

/// Throws cancelled if a stop of the call was requested, so that the remaining elements are not
/// run.
void leave_if_stopped(const am::stop_state& stop);

/// The callable that a message of map() carries: the receiver calls F with each of the values in
/// the message.
template <class F>
struct mapped {
  static_assert(!is_function_pointer<F>::value,
                "farcall: fc::map takes fc::fn<function>, a lambda or a functor");
  static_assert(has_fixed_signature<F>,
                "farcall: fc::map needs a callable with one call operator that is no template");
  using types = mapped_signature<typename signature_of<F>::type>;
  using value = typename types::value;
  /// If the elements are bitwise-copyable, F gets them from the receive buffer without a copy.
  using values = std::conditional_t<is_bitwise<value>, std::span<const value>, std::vector<value>>;

  typename types::results operator()(const values& given) const {
    F own = f;
    const am::stop_state* const stop = am::this_stack.stop;
    if constexpr (std::is_void_v<typename types::result>) {
      for (const value& v : given) {
        if (stop != nullptr) leave_if_stopped(*stop);
        own(v);
      }
    } else {
      typename types::results all;
      all.reserve(given.size());
      for (const value& v : given) {
        if (stop != nullptr) leave_if_stopped(*stop);
        all.push_back(own(v));
      }
      return all;
    }
  }

  F f;
};

/// Number of elements in one message. The number is so large that the cost of a message hardly
/// counts, and so small that the sender packs the next message while the receiver runs this one.
template <class T>
inline constexpr std::size_t mapped_at_once = !is_bitwise<T>     ? 64
                                              : sizeof(T) < 2048 ? 2048 / sizeof(T)
                                                                 : 1;

/// A type for which std::begin() and std::end() work. std::ranges::input_range is not used, because
/// <ranges> would make the library's header longer by a quarter.
template <class E>
concept iterable = requires(E& e) {
  std::begin(e);
  std::end(e);
};
/// False for elements that map() cannot collect in a vector, which has no bools in memory.
template <class T>
inline constexpr bool can_be_collected = !std::is_same_v<T, bool>;

template <class E>
using element_of = decltype(*std::begin(std::declval<E&>()));

/// True if the elements are contiguous in memory, in the form in which they are sent. Such elements
/// need not be collected in a vector first.
template <class E, class T>
concept sent_in_place = is_bitwise<T> && requires(E& e) {
  { std::data(e) } -> std::convertible_to<const T*>;
  std::size(e);
};

} // namespace detail

/// Calls `f` on a node, or in a lane, once for each element of `elements`, in their order. Returns
/// one future of all results: a vector in the same order, or void if `f` returns void. Several
/// elements share a message, so a short function costs a fraction of an async() each.
///
/// `f` is fc::fn<function>, or a lambda or functor as for async(), with one parameter. Each message
/// has a copy of `f`, so changes to its members do not last. If `f` throws for an element, it is
/// not called for the remaining elements of the same message, but the other messages are run as
/// usual. The returned future then throws the first of these exceptions in the order of the
/// elements. Waits only while the lane is full. Throws what async() throws. Like std::transform.
template <class Place, class F, class Elements>
  requires(detail::place<Place> && detail::iterable<Elements>)
[[nodiscard]] auto map(const Place& place, F f, Elements&& elements) {
  using call = detail::mapped<F>;
  using value = typename call::value;
  using results = typename call::types::results;
  static_assert(std::convertible_to<detail::element_of<Elements>, value>,
                "farcall: the elements do not convert to the parameter of what fc::map calls");
  constexpr std::size_t most = detail::mapped_at_once<value>;
  const call message{std::move(f)};
  std::vector<future<results>> parts;
  if constexpr (detail::sent_in_place<Elements, value>) {
    std::span<const value> left(std::data(elements), std::size(elements));
    parts.reserve(left.size() / most + 1);
    while (!left.empty()) {
      const auto now = left.first(left.size() < most ? left.size() : most);
      parts.push_back(async(place, message, now));
      left = left.subspan(now.size());
    }
  } else if constexpr (!detail::can_be_collected<value>) {
    static_assert(
        detail::can_be_collected<value>,
        "farcall: the parameter of what fc::map calls is a bool, and std::vector<bool> is "
        "not packable; take a char, or pass an array of bools");
  } else {
    std::vector<value> now;
    now.reserve(most);
    for (auto&& element : elements) {
      now.push_back(static_cast<value>(std::forward<decltype(element)>(element)));
      if (now.size() < most) continue;
      parts.push_back(async(place, message, now));
      now.clear();
    }
    if (!now.empty()) parts.push_back(async(place, message, now));
  }
  return when_all(std::move(parts)).then([](future<std::vector<future<results>>> ready) {
    std::vector<future<results>> all = ready.get();
    if constexpr (std::is_void_v<results>) {
      for (future<void>& part : all)
        part.get();
    } else {
      if (all.size() == 1) return all.front().get();
      results joined;
      for (future<results>& part : all) {
        results some = part.get();
        if (joined.empty()) joined.reserve(all.size() * most);
        joined.insert(joined.end(), std::make_move_iterator(some.begin()),
                      std::make_move_iterator(some.end()));
      }
      return joined;
    }
  });
}

} // namespace farcall
