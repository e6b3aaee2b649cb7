// SPDX-License-Identifier: Apache-2.0
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

/// Lets peers call callables that this program never calls itself. Needed for targets that are
/// built from other sources than their host. The call may be anywhere in the program; it has no
/// effect when it runs. `F` are types of functors with one call operator, or of fc::fn.
template <class... F>
void register_callables() noexcept {
  static_assert((detail::has_fixed_signature<F> && ...),
                "farcall: register_callables() takes functors with one call operator, and "
                "decltype(fc::fn<f>)");
  // This use of the entry (odr-use) puts the entry into the function registry before main().
  const auto use = [](const entry& /*of the callable*/) noexcept {};
  (use(detail::registered<F, typename detail::signature_of<F>::type>::far::self), ...);
}

} // namespace farcall
