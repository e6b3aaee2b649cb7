// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace ham::util {

/// Object whose destructor calls a callable. The callable must not throw.
template <class T>
class at_end_of_scope_functor {
 public:
  explicit at_end_of_scope_functor(T callable) : callable_(std::move(callable)) {}
  at_end_of_scope_functor(const at_end_of_scope_functor&) = delete;
  at_end_of_scope_functor& operator=(const at_end_of_scope_functor&) = delete;
  ~at_end_of_scope_functor() { callable_(); }

 private:
  T callable_;
};

/// Returns a guard that calls the callable at the end of the guard's scope, for example `auto guard
/// = at_end_of_scope_do([&] { … });`.
template <class T>
[[nodiscard]] at_end_of_scope_functor<T> at_end_of_scope_do(T callable) {
  return at_end_of_scope_functor<T>(std::move(callable));
}

} // namespace ham::util
