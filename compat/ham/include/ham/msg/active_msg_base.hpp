// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/msg/msg_handler_registry.hpp>

namespace ham::msg {

/// First part of each message, which contains the key of the message's handler. Keys are valid
/// after the process has called msg_handler_registry::init().
class active_msg_base {
 public:
  using key_type = msg_handler_registry::key_type;

  /// Runs the message in `buffer`. This object must be the beginning of that message.
  void operator()(void* buffer) { msg_handler_registry::get_handler(key_)(buffer); }

 protected:
  explicit active_msg_base(key_type key) : key_(key) {}

 private:
  key_type key_;
};

} // namespace ham::msg
