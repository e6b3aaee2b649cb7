#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// One target to start: a URL such as "shm", "shm?cpu=1&workers=2" or "tcp://host:port" after
/// counts were expanded.
struct target_url {
  std::string scheme;                   ///< "shm", "tcp", "cuda" or "cuda-emulated"
  std::string address;                  ///< tcp: "host:port" of the server
  bool plain = false;                   ///< plain=yes: in the clear beyond loopback too
  std::uint32_t workers = 1;            ///< workers=N: threads that run handlers
  std::optional<unsigned> cpu;          ///< cpu=N: processor to run on
  std::string program;                  ///< program=PATH: another binary than ours
  std::string name;                     ///< name=TEXT: instead of "node N"
  std::uint32_t device = 0;             ///< cuda: number of the GPU
  std::uint32_t threads = 0;            ///< threads=N: of a device's team; 0: not said
  std::optional<std::uint32_t> idle_ms; ///< idle_ms=N: a device's worker leaves after that
  /// Of exec: all words of the command line that starts the target; else empty.
  std::vector<std::string> command;
};

/// Whether the target is a device of the host's machine, which needs no process.
[[nodiscard]] inline bool is_device(const target_url& url) {
  return url.scheme == "cuda" || url.scheme == "cuda-emulated";
}

/// Largest number of targets in a job.
inline constexpr std::uint32_t most_targets = 250;

/// Reads a comma-separated list: "shm:4", "shm?cpu=1,tcp://host:9000?count=2". A count N stands for
/// N targets; cpu=K gives them processors K, K+1, … "exec:qemu-aarch64 ./app?count=2" is an shm
/// target whose command line is given: words between spaces, and what stands in '…' or "…" is taken
/// as it is, commas and question marks included. "cuda:1?workers=4&threads=128" is the second GPU.
/// Throws setting_error that quotes the piece and says what is possible.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text);

} // namespace farcall
