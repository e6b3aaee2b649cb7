#pragma once

#include <ham/msg/msg_handler_registry.hpp>

namespace ham::msg {

/// What all messages begin with: the key of the code that runs them, valid in every process once
/// msg_handler_registry::init() was called there.
class active_msg_base {
 public:
  using key_type = msg_handler_registry::key_type;

  /// Runs the message in `buffer`, whose beginning this is.
  void operator()(void* buffer) { msg_handler_registry::get_handler(key_)(buffer); }

 protected:
  explicit active_msg_base(key_type key) : key_(key) {}

 private:
  key_type key_;
};

} // namespace ham::msg
