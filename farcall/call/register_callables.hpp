#pragma once

#include <farcall/call/invoke.hpp>

#include <type_traits>

namespace farcall {

namespace detail {

template <class F, class Signature>
struct registered;

template <class F, class R, class... P>
struct registered<F, signature<R, P...>> {
  using far = remote_call<F, R, P...>;
};

} // namespace detail

/// Lets peers call callables that this program never calls itself, as a target does whose sources
/// are not its host's. The call may stand anywhere in the program; it does nothing when it runs.
/// `F`: types of functors or of fc::fn that take what they take, whoever calls them.
template <class... F>
void register_callables() noexcept {
  static_assert((detail::has_fixed_signature<F> && ...),
                "farcall: register_callables() takes functors with one call operator, and "
                "decltype(fc::fn<f>)");
  // Used, the entry is in the function registry before main().
  const auto use = [](const entry& /*of the callable*/) noexcept {};
  (use(detail::registered<F, typename detail::signature_of<F>::type>::far::self), ...);
}

} // namespace farcall
