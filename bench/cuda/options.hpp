// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::bench {

/// Thrown for options that do not exist, or have a wrong value.
class usage_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// Role of the process: the benchmark starts itself again to have processes that it can kill.
enum class role {
  measure,
  smoke, ///< makes a few calls of each kind and checks their results
  hold,  ///< keeps workers resident until it is killed
  once,  ///< makes one call in a new process
  pin,   ///< calls exit() while workers are resident
  spin,  ///< makes a call that never ends, and gives the device up
};

struct options {
  role what = role::measure;
  std::string target = "cuda:0"; ///< URL of the device
  std::string csv;               ///< file that figures are added to, or empty
  std::vector<std::string> only; ///< groups to measure; all if empty
  std::size_t samples = 200'000; ///< of a latency
  std::size_t timeout_s = 10;    ///< seconds without progress until the process ends
  bool quick = false;
  bool help = false;

  /// Returns the number for a full run, or for a quick run.
  [[nodiscard]] std::size_t choose(std::size_t full, std::size_t quickly) const {
    return quick ? quickly : full;
  }
  [[nodiscard]] bool wants(std::string_view group) const;
  [[nodiscard]] bool is_gpu() const { return target.starts_with("cuda:") || target == "cuda"; }
  /// Returns the number of the GPU. Throws farcall::setting_error for an invalid URL.
  [[nodiscard]] int device() const;
};

/// Reads the command line. Throws usage_error.
[[nodiscard]] options parse_options(const std::vector<std::string>& arguments);

[[nodiscard]] const char* help_text();

/// Returns the URL with `key=value`, in place of another value for the key.
[[nodiscard]] std::string with_option(const std::string& url, std::string_view key,
                                      std::size_t value);

} // namespace farcall::bench
