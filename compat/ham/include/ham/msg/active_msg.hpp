// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/msg/active_msg_base.hpp>
#include <ham/msg/execution_policy.hpp>

#include <typeinfo>

namespace ham::msg {

/// Base class of message types. A message type is declared as `class greeting : public
/// active_msg<greeting>` and has a call operator. The program sends a message by copying its bytes,
/// and runs a received message by calling its active_msg_base.
template <class Derived, template <class> class ExecutionPolicy = default_execution_policy>
class active_msg : public active_msg_base, public ExecutionPolicy<Derived> {
 public:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): HAM's programs are no friends of ours
  active_msg() : active_msg_base(key_) {
    // Take the address of is_registered_, because the compiler instantiates the variable, and
    // thereby registers the message type, only if it is used.
    static_cast<void>(&is_registered_);
  }

  using handler_type = msg_handler_registry::handler_type;

 private:
  friend msg_handler_registry;

  static void set_key(key_type key) { key_ = key; }

  static inline key_type key_ = 0;
  static inline const bool is_registered_ = msg_handler_registry::register_handler<active_msg>(
      typeid(Derived).name(), &ExecutionPolicy<Derived>::handler);
};

} // namespace ham::msg
