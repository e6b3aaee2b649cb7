// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farcall::files {

/// Reply to one request of a target. It consists of a result and bytes, which the operation writes
/// directly into the reply's memory. Up to max_copied bytes are copied into a record. More bytes
/// are put into a block of the job's memory, from which the target fetches them. Used by one
/// thread.
class host_reply {
 public:
  /// Maximum number of bytes that are copied into a record rather than put into a block.
  static constexpr std::size_t max_copied = 16384;

  /// `landing` is the number of the target's landing place for the bytes.
  host_reply(am::request_context& to, std::uint64_t landing) noexcept
      : to_(to), landing_(landing) {}
  host_reply(const host_reply&) = delete;
  host_reply& operator=(const host_reply&) = delete;
  ~host_reply();

  /// Returns memory for `bytes` bytes of the reply. If the operation's result is smaller than
  /// `bytes`, only as many bytes as the result says are sent. May be called once. Throws
  /// out_of_memory.
  [[nodiscard]] std::byte* reserve(std::size_t bytes);

  /// Sets the bytes of the reply to the bytes of `value`.
  template <class T>
  void put(const T& value) noexcept {
    static_assert(sizeof value <= max_copied);
    std::memcpy(near_.data(), &value, sizeof value);
    value_bytes_ = sizeof value;
  }

  /// Sends the reply, without bytes if the result is an error. Throws out_of_memory and
  /// std::bad_alloc.
  void send(std::int64_t result);

 private:
  am::request_context& to_;
  std::uint64_t landing_;
  std::size_t reserved_ = 0;
  std::size_t value_bytes_ = 0;
  std::byte* block_ = nullptr;
  std::array<std::byte, max_copied> near_; ///< uninitialised
};

} // namespace farcall::files
