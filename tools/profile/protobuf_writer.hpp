// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Writes a message in the encoding of Protocol Buffers, field by field. Omits numbers that are
/// zero, like proto3.
class protobuf_writer {
 public:
  void number(unsigned field, std::uint64_t value);
  void signed_number(unsigned field, std::int64_t value) {
    number(field, static_cast<std::uint64_t>(value));
  }
  /// Writes a packed repeated field, whose values are numbers.
  void numbers(unsigned field, const std::vector<std::uint64_t>& values);
  /// Writes a field of bytes, even if it is empty.
  void bytes(unsigned field, std::string_view value);
  void message(unsigned field, const protobuf_writer& value) { bytes(field, value.bytes_); }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

} // namespace farcall::tool
