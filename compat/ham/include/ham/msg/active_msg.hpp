#pragma once

#include <ham/msg/active_msg_base.hpp>
#include <ham/msg/execution_policy.hpp>

#include <typeinfo>

namespace ham::msg {

/// Base of message types: `class greeting : public active_msg<greeting>` with a call operator. To
/// send one, copy its bytes; to run one, call its active_msg_base.
template <class Derived, template <class> class ExecutionPolicy = default_execution_policy>
class active_msg : public active_msg_base, public ExecutionPolicy<Derived> {
 public:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): HAM's programs are no friends of ours
  active_msg() : active_msg_base(key_) {
    // Named, so that the registration is not left out of the program.
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
