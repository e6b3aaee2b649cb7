// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace farcall::am2 {

/// Type of the message by which a process ends the job. The bytes of the message are the exit code.
inline constexpr std::int32_t exit_message = 4;

/// A message from one process to another, for collectives and the end of the job. It does not
/// involve endpoints.
struct job_message {
  int node = 0;
  std::int32_t type = 0;
  std::int32_t number = 0;
  std::vector<std::byte> bytes{};
};

/// Job messages that have arrived and have not been taken yet. Can be used by any thread.
class job_messages {
 public:
  void add(int node, const message& m) {
    if (m.header.arguments() != 2) return;
    job_message j{node, m.arguments[0], m.arguments[1]};
    if (m.bytes != 0) {
      const auto* const from = static_cast<const std::byte*>(m.payload);
      j.bytes.assign(from, from + m.bytes);
    }
    const std::lock_guard guard(mutex_);
    come_.push_back(std::move(j));
  }

  /// Takes the oldest message of this type and number, from any node.
  [[nodiscard]] std::optional<job_message> take(std::int32_t type, std::int32_t number) {
    return take_if([&](const job_message& m) { return m.type == type && m.number == number; });
  }
  /// Takes the oldest message for which is_it(message) is true.
  template <class F>
  [[nodiscard]] std::optional<job_message> take_if(const F& is_it) {
    const std::lock_guard guard(mutex_);
    const auto at = std::find_if(come_.begin(), come_.end(), is_it);
    if (at == come_.end()) return std::nullopt;
    std::optional<job_message> found(std::move(*at));
    come_.erase(at);
    return found;
  }

 private:
  std::mutex mutex_;
  std::deque<job_message> come_;
};

} // namespace farcall::am2
