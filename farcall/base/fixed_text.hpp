// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unistd.h>

namespace farcall {

/// Text in a fixed-size array, for signal handlers, which must not allocate: a thread that faults
/// may hold malloc's lock.
class fixed_text {
 public:
  void add(std::string_view text) noexcept {
    const std::size_t n = std::min(text.size(), bytes_.size() - 1 - size_);
    std::copy_n(text.data(), n, bytes_.data() + size_);
    size_ += n;
  }
  void add_number(std::uintptr_t number, int base = 10) noexcept {
    std::array<char, 24> digits{};
    const auto done = std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
    add({digits.data(), done.ptr});
  }
  void add_address(std::uintptr_t address) noexcept {
    add("0x");
    add_number(address, 16);
  }
  /// Adds the content of a file from its beginning, as far as it fits. Returns false if nothing was
  /// added, because the file is empty or cannot be read, or because there is no space.
  bool add_file(int file) noexcept {
    const ssize_t got = ::pread(file, bytes_.data() + size_, bytes_.size() - 1 - size_, 0);
    if (got > 0) size_ += static_cast<std::size_t>(got);
    return got > 0;
  }
  void write_to(int file) const noexcept {
    [[maybe_unused]] const auto written = ::write(file, bytes_.data(), size_);
  }
  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  /// Returns the text, followed by a zero byte.
  [[nodiscard]] char* data() noexcept { return bytes_.data(); }
  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 16384> bytes_{};
  std::size_t size_ = 0;
};

} // namespace farcall
