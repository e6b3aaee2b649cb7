#pragma once

#include <ham/misc/types.hpp>

namespace ham::msg {

/// Runs the message where it lies.
template <class Derived>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): a static function, no base
struct execution_policy_direct {
  static void handler(void* buffer) { (*static_cast<Derived*>(buffer))(); }
};

template <class Derived>
using default_execution_policy = execution_policy_direct<Derived>;

} // namespace ham::msg
