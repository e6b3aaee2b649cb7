#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

struct transport_entry;

/// One target to start: a URL such as "shm", "shm?cpu=1&workers=2" or "tcp://host:port" after
/// counts were expanded.
struct target_url {
  std::string scheme;          ///< of a row of the table of transports
  std::string place;           ///< what stands before the options; empty: a command
  std::string address;         ///< what stands behind the scheme, as its row reads it
  std::uint32_t workers = 1;   ///< workers=N: threads that run handlers
  std::optional<unsigned> cpu; ///< cpu=N: processor to run on
  std::string program;         ///< program=PATH: another binary than ours
  std::string name;            ///< name=TEXT: instead of "node N"
  /// Of exec: all words of the command line that starts the target; else empty.
  std::vector<std::string> command;
  /// What only this scheme knows, checked against the options of its row.
  std::map<std::string, std::string, std::less<>> options;

  /// An option of the scheme that is a number, or nothing where it was not given.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view option) const;
  [[nodiscard]] bool has(std::string_view option) const { return options.contains(option); }
};

/// Instead of a list: in a job of equals, the host is alone.
inline constexpr std::string_view no_targets = "none";

/// Largest number of targets in a job, at its start.
inline constexpr std::uint32_t most_targets = 4000;
/// Of one target.
inline constexpr std::uint32_t most_workers = 64;

/// Reads a comma-separated list: "shm:4", "shm?cpu=1,tcp://host:9000?count=2". A count N stands for
/// N targets; cpu=K gives them processors K, K+1, … "exec:qemu-aarch64 ./app?count=2" is a process
/// of this machine whose command line is given: words between spaces, and what stands in '…' or "…"
/// is taken as it is, commas and question marks included. What schemes and options there are is
/// said by the rows. Throws setting_error that quotes the piece and says what is possible.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text,
                                                    std::span<const transport_entry> rows);

/// The same with the rows of this program.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text);

} // namespace farcall
