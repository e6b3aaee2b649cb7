// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/not_packable.hpp>
#include <farcall/call/pack.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace farcall {

/// Makes a callable of a function that is known at compile time: `async(node, fc::fn<f>, x)`. The
/// function's name is part of the callable's type, so different programs agree on the callable
/// without symbol tables. To choose an overload, cast the function.
template <auto Function>
struct fn_t {
  /// Calls the function on this node, with the given arguments.
  template <class... A>
  constexpr decltype(auto) operator()(A&&... a) const {
    return Function(std::forward<A>(a)...);
  }
};
/// `fc::fn<f>` is the callable for the function `f`.
template <auto Function>
inline constexpr fn_t<Function> fn{};

/// Number in the request's header that tells the receiver which plain function to call. If both
/// nodes run the same build, the number is an offset into the program's image. Otherwise it is a
/// number that the receiver has assigned to the function's symbol name.
struct function_handle {
  std::uint32_t value = 0; ///< bit 31 is set if the receiver has assigned the number
};

class entry;

template <class T>
class reply;

/// Trait of a type R that a handler may return in place of a T, and whose value becomes available
/// later. A specialisation defines `using value = T;` and `static void give(am::request_context&
/// request, R result)`. give() either replies at once or defers the reply.
template <class R>
struct later_result {};

namespace detail {

template <class... T>
struct type_list {};

template <class R>
concept comes_later = requires { typename later_result<R>::value; };

/// Placeholder for the result of a handler that takes a reply<T> parameter.
template <class T>
struct given_by_reply {};
template <class R>
inline constexpr bool is_given_by_reply = false;
template <class T>
inline constexpr bool is_given_by_reply<given_by_reply<T>> = true;

/// Lets a module whose callables are of a kind of its own add code to each of their calls. The
/// module specialises this template for the type F of these callables. Each call then contains
/// name(), so that the program is linked with the symbols that name() mentions.
template <class F>
struct call_policy {
  template <class R, const entry* What, class... P>
  static void name() noexcept {}
};

/// True for a type whose value, as the first argument of a call, says how the callable is to run.
/// For example, a value may say on how many threads. A module with such a type specialises this
/// variable and adds an overload of async().
template <class T>
inline constexpr bool is_call_shape = false;

template <class R, class... P>
struct signature {
  using result = R;
  using parameters = type_list<P...>;
};

/// The signature as callers see it. If the result is void and the first parameter is a reply<T>,
/// callers do not see this parameter, and T is the result.
template <class S>
struct as_called {
  using type = S;
};
template <class T, class... P>
struct as_called<signature<void, reply<T>, P...>> {
  using type = signature<given_by_reply<T>, P...>;
};

template <class F>
struct signature_of_member {};
#define FARCALL_MEMBER_SIGNATURE(qualifiers)                                                       \
  template <class R, class C, class... P>                                                          \
  struct signature_of_member<R (C::*)(P...) qualifiers /* NOLINT(bugprone-macro-parentheses) */> { \
    using type = typename as_called<signature<R, P...>>::type;                                     \
  };
FARCALL_MEMBER_SIGNATURE()
FARCALL_MEMBER_SIGNATURE(const)
FARCALL_MEMBER_SIGNATURE(noexcept)
FARCALL_MEMBER_SIGNATURE(const noexcept)
FARCALL_MEMBER_SIGNATURE(&)
FARCALL_MEMBER_SIGNATURE(const&)
FARCALL_MEMBER_SIGNATURE(& noexcept)
FARCALL_MEMBER_SIGNATURE(const& noexcept)
#undef FARCALL_MEMBER_SIGNATURE

template <class F>
struct is_function_pointer : std::false_type {};
template <class R, class... P>
struct is_function_pointer<R (*)(P...)> : std::true_type {
  using signature_type = typename as_called<signature<R, P...>>::type;
  using plain = R (*)(P...);
};
template <class R, class... P>
struct is_function_pointer<R (*)(P...) noexcept> : is_function_pointer<R (*)(P...)> {};

template <class F>
concept has_one_signature =
    requires { typename signature_of_member<decltype(&F::operator())>::type; };

/// Parameters and result of F when it is called with arguments of the types A.... If F has several
/// call operators, or a templated one, its parameters have the arguments' types.
template <class F, class... A>
struct signature_of {
  using type = signature<std::invoke_result_t<F&, std::decay_t<A>...>, std::decay_t<A>...>;
};
template <class F, class... A>
  requires has_one_signature<F>
struct signature_of<F, A...> : signature_of_member<decltype(&F::operator())> {};
template <class F, class... A>
  requires(is_function_pointer<F>::value)
struct signature_of<F, A...> {
  using type = typename is_function_pointer<F>::signature_type;
};
template <auto Function, class... A>
struct signature_of<fn_t<Function>, A...> {
  using pointer = std::decay_t<decltype(Function)>;
  static_assert(is_function_pointer<pointer>::value,
                "farcall: fc::fn<f> takes a function; choose an overload with static_cast");
  using type = typename is_function_pointer<pointer>::signature_type;
};

template <class F>
inline constexpr bool is_fn = false;
template <auto Function>
inline constexpr bool is_fn<fn_t<Function>> = true;

/// True if the parameters of F are the same for all calls, whatever arguments a call has. False for
/// example for a lambda with `auto` parameters.
template <class F>
concept has_fixed_signature = is_function_pointer<F>::value || is_fn<F> || has_one_signature<F>;

/// Type that is sent for a parameter of type P. For `const T&`, the target makes a value of its
/// own. `T&` is refused, because the target could not change the caller's value.
template <class P>
struct packed_parameter {
  static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                "farcall: a parameter of type T& cannot be sent: the target would change a copy. "
                "Take T or const T& and return the new value, or pass a remote_span.");
  using type = std::remove_cvref_t<P>;
};

template <class R>
struct packed_result {
  using type = std::remove_cvref_t<R>;
  static_assert(!has_views<type>,
                "farcall: a result that is a view (span, string_view) would refer to memory of the "
                "call that is over. Return a vector, a string, or a remote_span.");
};
template <>
struct packed_result<void> {
  using type = void;
};
template <comes_later R>
struct packed_result<R> : packed_result<typename later_result<R>::value> {};
template <class T>
struct packed_result<given_by_reply<T>> : packed_result<T> {};

// ---- checks of a call, and the single compile error that explains a failed check

template <class P>
inline constexpr bool is_sound_parameter =
    (!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>) &&
    is_packable_v<std::remove_cvref_t<P>>;

// auto: see require_one().
template <class P>
auto explain_parameter() {
  if constexpr (std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>) {
    [[maybe_unused]] const packed_parameter<P> why{};
  } else if constexpr (!is_sound_parameter<P>) {
    require_packable<std::remove_cvref_t<P>>();
  }
}

/// Checks a call with arguments of types A... to a callable with the signature S.
template <class S, class... A>
struct given_arguments;

template <class R, class... P, class... A>
struct given_arguments<signature<R, P...>, A...> {
  static constexpr bool are_enough = sizeof...(A) == sizeof...(P);
  static constexpr bool are_packable = (is_sound_parameter<P> && ...);

  static consteval bool convert() {
    if constexpr (are_enough) {
      return (std::is_convertible_v<A, std::remove_cvref_t<P>> && ...);
    } else {
      return false;
    }
  }
  static constexpr bool are_sound = are_packable && convert();

  static auto explain() {
    static_assert(are_enough, "farcall: this call gives more or fewer arguments than the function "
                              "has parameters. Default arguments do not reach here: give all.");
    (explain_parameter<P>(), ...);
    static_assert(
        !are_enough || !are_packable || convert(),
        "farcall: an argument of this call does not convert to the function's parameter.");
  }
};

/// True if F is a function, or a function object that can be sent.
template <class F>
inline constexpr bool is_sound_callable =
    is_function_pointer<F>::value || (std::is_class_v<F> && is_packable_v<F>);

template <class F, class... A>
consteval bool is_sound_call() {
  if constexpr (!is_sound_callable<F>) {
    return false;
  } else if constexpr (has_fixed_signature<F>) {
    return given_arguments<typename signature_of<F>::type, A...>::are_sound;
  } else {
    return true;
  }
}

template <class F, class... A>
auto explain_call() {
  static_assert(is_function_pointer<F>::value || std::is_class_v<F>,
                "farcall: what is called must be a function, fc::fn<function>, a lambda or a "
                "functor. For a member function, pass a lambda that calls it.");
  static_assert(
      is_sound_callable<F> || !std::is_class_v<F>,
      "farcall: this lambda or functor cannot be sent: what it holds is not sent byte by byte "
      "(a string, a vector, a node, a std::function, a pointer to a member). Pass that as an "
      "argument, specialise farcall::packer for the functor, or call a lambda instead.");
  if constexpr (is_sound_callable<F> && has_fixed_signature<F>)
    given_arguments<typename signature_of<F>::type, A...>::explain();
}

/// Placeholder for a result of unknown type. It converts to any type, so that its use causes no
/// further compile errors.
struct any_result {
  template <class T>
  operator T() const; // NOLINT(google-explicit-constructor)
};

template <class R>
struct explained_result {
  using type = std::remove_cvref_t<R>;
};
template <comes_later R>
struct explained_result<R> : explained_result<typename later_result<R>::value> {};
template <class T>
struct explained_result<given_by_reply<T>> : explained_result<T> {};

template <class R>
consteval auto result_if_movable() {
  using result = typename explained_result<R>::type;
  if constexpr (std::is_void_v<result> || std::is_move_constructible_v<result>) {
    return std::type_identity<result>{};
  } else {
    return std::type_identity<any_result>{};
  }
}

/// Result type of a call that fails to compile, chosen so that the code around the call causes no
/// errors besides the explanation.
template <class F>
consteval auto result_of_unsound_call() {
  if constexpr (has_fixed_signature<F>) {
    return result_if_movable<typename signature_of<F>::type::result>();
  } else if constexpr (requires { typename signature_of_member<F>::type; }) {
    return result_if_movable<typename signature_of_member<F>::type::result>();
  } else {
    return std::type_identity<any_result>{};
  }
}

} // namespace detail
} // namespace farcall
