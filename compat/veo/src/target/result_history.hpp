// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace farcall::veo {

/// Results of the last requests of a context, which veo_prev_req_result() returns.
class result_history {
 public:
  void push(std::uint64_t result) noexcept { results_[count_++ % kept] = result; }

  /// Adds the results of requests that the host has executed itself. The result of each is 0.
  void push_zeros(std::uint32_t n) noexcept {
    for (std::uint32_t i = std::min<std::uint32_t>(n, kept); i > 0; --i)
      push(0);
  }

  /// Returns the result of an earlier request. `offset` counts backwards; 0 is the last request.
  /// Returns none if there was no such request, or if it is older than 1024 requests.
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
