// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/packing.hpp>

#include <farcall/call/callable.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ham {
namespace detail {

// Replacement for std::tuple, which is not trivially copyable even if all its elements are.
template <std::size_t I, class T>
struct held_value {
  migratable<T> value;
};
template <class Indices, class... T>
struct held_values;
template <std::size_t... I, class... T>
struct held_values<std::index_sequence<I...>, T...> : held_value<I, T>... {
  template <class... A>
  explicit held_values(std::in_place_t /*values*/, A&&... values)
      : held_value<I, T>{migratable<T>(std::forward<A>(values))}... {}

  template <class F>
  decltype(auto) apply(F&& f) const {
    return std::forward<F>(f)(held_value<I, T>::value...);
  }
};

/// Functor that calls Function with the arguments that it stores. It is the base class of the
/// functors that f2f returns.
template <auto Function, class R, class... P>
class bound_function {
  static_assert(((!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>) &&
                 ...),
                "ham: a parameter of type T& cannot be sent: the target would change a copy");
  template <class T>
  using value_of = std::remove_cvref_t<T>;
  template <class... A>
  static constexpr bool is_copy =
      sizeof...(A) == 1 && (std::is_base_of_v<bound_function, value_of<A>> && ...);

 public:
  using result_type = R;

  /// Stores the arguments. Each argument is converted to the type of its parameter.
  template <class... A>
    requires(sizeof...(A) == sizeof...(P) && !is_copy<A...> &&
             (std::is_constructible_v<migratable<value_of<P>>, A> && ...))
  bound_function(A&&... arguments) : values_(std::in_place, std::forward<A>(arguments)...) {}

  R operator()() const {
    return values_.apply([](const migratable<value_of<P>>&... values) -> R {
      // Pass a copy of the stored value to a parameter of type T&&, and a reference to the stored
      // value to all other parameters.
      return Function(static_cast<std::conditional_t<std::is_rvalue_reference_v<P>, value_of<P>,
                                                     const value_of<P>&>>(values)...);
    });
  }

 private:
  template <class>
  friend struct farcall::packer;

  held_values<std::index_sequence_for<P...>, value_of<P>...> values_;
};

} // namespace detail

/// Functor for a function that is known at compile time. The functor stores the arguments of the
/// call.
template <class FunctionPtrT, FunctionPtrT FunctionPtr>
class function {
  static_assert(std::is_pointer_v<FunctionPtrT> && !std::is_pointer_v<FunctionPtrT>,
                "ham: ham::function and f2f take a pointer to a function");
};

template <class R, class... P, R (*FunctionPtr)(P...)>
class function<R (*)(P...), FunctionPtr> : public detail::bound_function<FunctionPtr, R, P...> {
 public:
  using bound = detail::bound_function<FunctionPtr, R, P...>;
  using detail::bound_function<FunctionPtr, R, P...>::bound_function;
};

template <class R, class... P, R (*FunctionPtr)(P...) noexcept>
class function<R (*)(P...) noexcept, FunctionPtr>
    : public detail::bound_function<FunctionPtr, R, P...> {
 public:
  using bound = detail::bound_function<FunctionPtr, R, P...>;
  using detail::bound_function<FunctionPtr, R, P...>::bound_function;
};

/// A functor is bitwise copyable if the types of all its parameters are bitwise copyable.
template <auto Function, class R, class... P>
struct is_bitwise_copyable<detail::bound_function<Function, R, P...>> {
  static constexpr bool value = (is_bitwise_copyable<migratable<P>>::value && ...);
};
template <class FunctionPtrT, FunctionPtrT FunctionPtr>
struct is_bitwise_copyable<function<FunctionPtrT, FunctionPtr>> {
  static constexpr bool value =
      is_bitwise_copyable<typename function<FunctionPtrT, FunctionPtr>::bound>::value;
};

namespace detail {

template <auto Lambda, class Signature>
struct lambda_function;
template <auto Lambda, class R, class... P>
struct lambda_function<Lambda, farcall::detail::signature<R, P...>> {
  using type = bound_function<Lambda, R, P...>;
};

template <auto Function, class... A>
[[nodiscard]] auto function_for(A&&... arguments) {
  using kind = std::remove_const_t<decltype(Function)>;
  if constexpr (std::is_class_v<kind>) {
    using signature =
        typename farcall::detail::signature_of_member<decltype(&kind::operator())>::type;
    return typename lambda_function<Function, signature>::type(std::forward<A>(arguments)...);
  } else {
    return function<kind, Function>(std::forward<A>(arguments)...);
  }
}

template <class T>
struct parts_of_function {};
template <auto Function, class R, class... P>
struct parts_of_function<bound_function<Function, R, P...>> {
  using values = std::tuple<migratable<std::remove_cvref_t<P>>...>;
};
template <auto Function, class R, class... P>
parts_of_function<bound_function<Function, R, P...>>
parts_of(const bound_function<Function, R, P...>&);

/// True if F is a bound_function or is derived from one, like ham::function.
template <class F>
concept is_function = requires(const F& f) { parts_of(f); };

} // namespace detail
} // namespace ham

/// Makes a functor from a function and its arguments, for example f2f(&f, 1, 2). The function is a
/// pointer to a function, or a lambda without captures. Write parentheses around a name that
/// contains a comma, and use static_cast to select an overload.
// NOLINTNEXTLINE(readability-identifier-naming): HAM's name
#define f2f(function_pointer, ...) ::ham::detail::function_for<(function_pointer)>(__VA_ARGS__)

/// Macros that take a pointer to a function. The first one is the type of the function's functor.
/// The other two make a functor, without and with arguments of the call.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name in parentheses is another type
#define F2F_TEMPLATE(function_pointer) ::ham::function<decltype(function_pointer), function_pointer>
#define F2F_ZERO_ARGS(function_pointer) F2F_TEMPLATE(function_pointer)()
#define F2F_N_ARGS(function_pointer, ...) F2F_TEMPLATE(function_pointer)(__VA_ARGS__)

template <class F>
  requires(ham::detail::is_function<F> && !std::is_trivially_copyable_v<F>)
struct farcall::packer<F> {
  static void pack(writer& w, const F& f) {
    f.values_.apply([&](const auto&... values) { (one(w, values), ...); });
  }
  static F unpack(reader& r) {
    using values = typename decltype(ham::detail::parts_of(std::declval<const F&>()))::values;
    return [&]<class... M>(std::tuple<M...>* /*kinds*/) {
      // Values are read in the order in which they were packed. The initialiser therefore has
      // braces, which evaluate their expressions from left to right; parentheses do not guarantee
      // an order.
      std::tuple<M...> all{next<M>(r)...};
      return std::apply([](M&... each) { return F(std::move(each)...); }, all);
    }(static_cast<values*>(nullptr));
  }

 private:
  template <class M>
  static void one(writer& w, const M& value) {
    if constexpr (farcall::is_packable_v<M>) {
      w(value);
    } else {
      ham::detail::pack_image(w, value);
    }
  }
  template <class M>
  static M next(reader& r) {
    if constexpr (farcall::is_packable_v<M>) {
      return r.read<M>();
    } else {
      return ham::detail::unpack_image<M>(r);
    }
  }
};
