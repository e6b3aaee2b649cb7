// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farcall::detail {

/// Returns the number, counted from 1, of the message type with this mangled name. The number is
/// the same in all libraries of the process. Returns 0 if the process already has
/// message_table::most types. `code` is the code of the type's entry; it distinguishes types with
/// equal names that are local to two files. Any thread may call it.
[[nodiscard]] std::uint32_t number_of_message_type(const char* name,
                                                   am::handler_function code) noexcept;

/// Handlers of a job's raw messages, by number of their message type. Any thread may use it; find()
/// takes no lock. A replaced handler stays valid until the table is destroyed, because another
/// thread may be about to run it.
class message_table {
 public:
  /// Maximum number of message types in a process.
  static constexpr std::uint32_t most = 255;

  /// A message_handler, stored without the type of its prefix.
  struct registration {
    void (*run)();
    void* context;
    registration* before; ///< registration that was made before this one
  };

  message_table() = default;
  message_table(const message_table&) = delete;
  message_table& operator=(const message_table&) = delete;
  ~message_table();

  /// Returns the handler of a message type, or null.
  [[nodiscard]] const registration* find(std::uint32_t number) const noexcept {
    // Acquire, paired with the release store in set(), so that the registration's members are
    // visible.
    return handlers_[number].load(std::memory_order_acquire);
  }

  /// Replaces the handler of a message type. If `run` is null, removes the handler. Throws error
  /// for number 0, and std::bad_alloc.
  void set(std::uint32_t number, void (*run)(), void* context);

 private:
  std::array<std::atomic<const registration*>, most + 1> handlers_{};
  std::atomic<registration*> last_{nullptr};
};

} // namespace farcall::detail
