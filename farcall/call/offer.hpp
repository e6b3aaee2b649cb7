#pragma once

#include <farcall/call/invoke.hpp>

#include <type_traits>

namespace farcall {

namespace detail {

template <class F, class Signature>
struct offered;

template <class F, class R, class... P>
struct offered<F, signature<R, P...>> {
  using far = far_call<F, R, P...>;
};

} // namespace detail

/// Lets peers call callables that this program never calls itself, as a target does whose sources
/// are not its host's. The call may stand anywhere in the program; it does nothing when it runs.
/// `F`: types of functors or of fc::fn that take what they take, whoever calls them.
template <class... F>
void offer() noexcept {
  static_assert((detail::has_fixed_signature<F> && ...),
                "farcall: offer() takes functors with one call operator, and decltype(fc::fn<f>)");
  // Used, the entry is in the table before main().
  const auto use = [](const entry& /*of the callable*/) noexcept {};
  (use(detail::offered<F, typename detail::signature_of<F>::type>::far::self), ...);
}

} // namespace farcall
