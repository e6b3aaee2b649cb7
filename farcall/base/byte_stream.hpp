// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {

/// Appends numbers and texts to a sequence of bytes, for control messages between nodes. The
/// arguments of calls are packed by call/pack.hpp instead.
class byte_writer {
 public:
  template <class T>
  void number(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint32_t>(value.size()));
    const auto* from = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), from, from + value.size());
  }
  void block(std::span<const std::byte> value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }

  [[nodiscard]] std::vector<std::byte> bytes() && { return std::move(bytes_); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const& { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads the output of a byte_writer. The bytes are untrusted: every read is checked, and throws
/// malformed_message that names `what` if bytes are missing.
class byte_reader {
 public:
  /// Longest text, in bytes, that the reader accepts.
  static constexpr std::size_t max_text = 4096;

  byte_reader(std::span<const std::byte> bytes, const char* what) : left_(bytes), what_(what) {}

  template <class T>
  [[nodiscard]] T number() {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string text() {
    const auto size = number<std::uint32_t>();
    if (size > max_text) throw malformed_message(std::string(what_) + " holds an overlong text");
    const auto from = take(size);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  /// Returns a view of the bytes.
  [[nodiscard]] std::span<const std::byte> block() { return take(number<std::uint32_t>()); }
  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > left_.size()) throw malformed_message(std::string(what_) + " is cut short");
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }

  std::span<const std::byte> left_;
  const char* what_;
};

} // namespace farcall
