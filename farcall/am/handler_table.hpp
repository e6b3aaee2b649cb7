// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/am/responder.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace farcall::am {

/// Handlers of an engine, found by key. Keys below first_user_key belong to the active-message
/// layer, the others to its user.
class handler_table {
 public:
  /// Makes the table. If `traces` is true, each run of a user handler is recorded.
  handler_table(std::span<const handler_function> of_user, bool traces);
  handler_table(const handler_table&) = delete;
  handler_table& operator=(const handler_table&) = delete;
  ~handler_table() = default;

  /// Returns the handler for a key; null if the key has none.
  [[nodiscard]] handler_function find(handler_key key) const noexcept {
    return key < handlers_.size() ? handlers_[key] : nullptr;
  }
  /// Returns the user's handler for a key. While the job is traced, the table has
  /// responder::run_traced() in place of this handler.
  [[nodiscard]] handler_function traced(handler_key key) const noexcept { return traced_[key]; }
  /// Returns the bound below which all keys are.
  [[nodiscard]] std::size_t size() const noexcept { return handlers_.size(); }

 private:
  /// Replaces user handlers by run_traced() if the job is traced, so that handlers cost nothing
  /// more in jobs that are not traced.
  void trace_user_handlers();

  std::vector<handler_function> handlers_;
  std::vector<handler_function> traced_; ///< original handlers, by key
};

} // namespace farcall::am
