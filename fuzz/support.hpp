// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

/// Code that fuzz targets share.
namespace farcall::fuzz {

/// Aborts unless an invariant holds.
inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Aborts unless the text fits into a log's line, and has printable characters of ASCII only.
inline void require_line(std::string_view text) {
  require(!text.empty() && text.size() < 400 &&
          std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
}

/// Reads the input byte by byte; zeros after its end.
class script {
 public:
  script(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  [[nodiscard]] bool is_over() const noexcept { return left_.empty(); }
  std::uint8_t byte() noexcept {
    if (left_.empty()) return 0;
    const std::uint8_t b = left_.front();
    left_ = left_.subspan(1);
    return b;
  }
  std::uint32_t word() noexcept {
    std::uint32_t w = 0;
    for (int i = 0; i < 4; ++i)
      w = w << 8 | byte();
    return w;
  }
  std::span<const std::byte> bytes(std::size_t most) noexcept {
    const auto taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return std::as_bytes(taken);
  }

 private:
  std::span<const std::uint8_t> left_;
};

} // namespace farcall::fuzz
