#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A message in the encoding of Protocol Buffers, field by field. Numbers that are zero are left
/// out, as version 3 of the language has it.
class protobuf_writer {
 public:
  void number(unsigned field, std::uint64_t value);
  void signed_number(unsigned field, std::int64_t value) {
    number(field, static_cast<std::uint64_t>(value));
  }
  /// A repeated field of numbers, packed.
  void numbers(unsigned field, const std::vector<std::uint64_t>& values);
  /// Written also when it is empty.
  void bytes(unsigned field, std::string_view value);
  void message(unsigned field, const protobuf_writer& value) { bytes(field, value.bytes_); }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

} // namespace farcall::tool
