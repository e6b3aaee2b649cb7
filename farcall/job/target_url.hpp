#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// One target to start: a URL such as "shm", "shm?cpu=1&workers=2" after counts were expanded.
struct target_url {
  std::string scheme;          ///< "shm"
  std::uint32_t workers = 1;   ///< workers=N: threads that run handlers
  std::optional<unsigned> cpu; ///< cpu=N: processor to run on
  std::string program;         ///< program=PATH: another binary than ours
  std::string name;            ///< name=TEXT: instead of "node N"
};

/// Largest number of targets in a job.
inline constexpr std::uint32_t most_targets = 250;

/// Reads a comma-separated list: "shm:4", "shm?cpu=1,shm?cpu=2&workers=3". A count N stands for N
/// targets; cpu=K gives them processors K, K+1, … Throws setting_error that quotes the piece and
/// says what is possible.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text);

} // namespace farcall
