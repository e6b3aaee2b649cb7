#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace farcall::veo {

/// Results of a context's last requests, for veo_prev_req_result().
class result_history {
 public:
  void push(std::uint64_t result) noexcept { results_[count_++ % kept] = result; }

  /// Requests that the host did by itself had the result 0.
  void push_zeros(std::uint32_t n) noexcept {
    for (std::uint32_t i = std::min<std::uint32_t>(n, kept); i > 0; --i)
      push(0);
  }

  /// Of the request `offset` before the last one; nothing when there was none, or long ago.
  [[nodiscard]] std::optional<std::uint64_t> before(int offset) const noexcept {
    const auto back = static_cast<std::uint64_t>(offset);
    if (offset < 0 || back >= kept || back >= count_) return std::nullopt;
    return results_[(count_ - 1 - back) % kept];
  }

 private:
  static constexpr std::size_t kept = 1024;
  std::array<std::uint64_t, kept> results_{};
  std::uint64_t count_ = 0;
};

} // namespace farcall::veo
