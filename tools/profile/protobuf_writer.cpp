// SPDX-License-Identifier: Apache-2.0
#include "protobuf_writer.hpp"

namespace farcall::tool {

namespace {

constexpr unsigned varint_type = 0;
constexpr unsigned length_delimited_type = 2;

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U)
    out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

void append_tag(std::string& out, unsigned field, unsigned type) {
  append_varint(out, field << 3U | type);
}

} // namespace

void protobuf_writer::number(unsigned field, std::uint64_t value) {
  if (value == 0) return;
  append_tag(bytes_, field, varint_type);
  append_varint(bytes_, value);
}

void protobuf_writer::numbers(unsigned field, const std::vector<std::uint64_t>& values) {
  if (values.empty()) return;
  std::string packed;
  for (const std::uint64_t value : values)
    append_varint(packed, value);
  bytes(field, packed);
}

void protobuf_writer::bytes(unsigned field, std::string_view value) {
  append_tag(bytes_, field, length_delimited_type);
  append_varint(bytes_, value.size());
  bytes_ += value;
}

} // namespace farcall::tool
