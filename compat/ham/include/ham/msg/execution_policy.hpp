// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/types.hpp>

namespace ham::msg {

/// Policy that runs a message where it was received, without copying it.
template <class Derived>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): a static function, no base
struct execution_policy_direct {
  static void handler(void* buffer) { (*static_cast<Derived*>(buffer))(); }
};

template <class Derived>
using default_execution_policy = execution_policy_direct<Derived>;

} // namespace ham::msg
