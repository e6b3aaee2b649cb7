#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::bench {

/// The command line asks for something that is not there.
class usage_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// What the process is for: the benchmark starts itself again to have processes that it can kill.
enum class role {
  measure,
  smoke, ///< a few calls of each kind, with their results checked
  hold,  ///< keeps workers resident until it is killed
  once,  ///< one call in a new process
  pin,   ///< exit() while workers are resident
  spin,  ///< a call that never ends, and the device is given up
  goals, ///< no figures: prints those of `csv`
};

struct options {
  role what = role::measure;
  std::string target = "cuda:0"; ///< URL of the device
  std::string json;              ///< file; empty: none
  std::string csv;
  bool append = false;           ///< `csv` has figures of other processes already
  std::vector<std::string> only; ///< groups; empty: all
  std::size_t samples = 200'000; ///< of a latency
  std::size_t patience = 10;     ///< seconds in which something has to go on
  bool quick = false;
  bool help = false;

  /// The number for a full run, or the one for a quick run.
  [[nodiscard]] std::size_t choose(std::size_t full, std::size_t quickly) const {
    return quick ? quickly : full;
  }
  [[nodiscard]] bool wants(std::string_view group) const;
  [[nodiscard]] bool is_gpu() const { return target.starts_with("cuda:") || target == "cuda"; }
  /// Number of the GPU. Throws farcall::setting_error for a URL that is none.
  [[nodiscard]] int device() const;
};

/// Throws usage_error.
[[nodiscard]] options parse_options(const std::vector<std::string>& arguments);

[[nodiscard]] const char* help_text();

/// The URL with `key=value`, instead of the value that it may have.
[[nodiscard]] std::string with_option(const std::string& url, std::string_view key,
                                      std::size_t value);

} // namespace farcall::bench
