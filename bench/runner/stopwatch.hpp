// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace farcall::tool {

/// Nanoseconds since construction or the last restart, by the monotonic clock. A reading costs some
/// 25 ns, so calls shorter than a microsecond are timed in batches.
class stopwatch {
 public:
  [[nodiscard]] double nanoseconds() const {
    return std::chrono::duration<double, std::nano>(clock::now() - start_).count();
  }
  void restart() { start_ = clock::now(); }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

} // namespace farcall::tool
