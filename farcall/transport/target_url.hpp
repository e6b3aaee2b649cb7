// SPDX-License-Identifier: Apache-2.0
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

/// One target to start, read from a URL such as "shm", "shm?cpu=1&workers=2" or "tcp://host:port".
/// A URL with a count becomes one object for each of its targets.
struct target_url {
  std::string scheme; ///< scheme of the URL, defined by a row of the table of transports
  std::string place;  ///< part of the URL before the options; empty for a command line
  /// Address in the URL, for example "host:9000" of "tcp://host:9000". The row's read_place()
  /// stores the address.
  std::string address;
  std::uint32_t workers = 1;   ///< from workers=N: number of threads that run handlers
  std::optional<unsigned> cpu; ///< from cpu=N: processor to run on
  std::string program;         ///< from program=PATH: program to run instead of this process's
  std::string name;            ///< name=TEXT: instead of "node N"
  /// All words of the command line that starts the target, for a URL with "exec:"; empty for other
  /// targets.
  std::vector<std::string> command;
  /// Options that only the scheme's row defines. They were checked against that row.
  std::map<std::string, std::string, std::less<>> options;

  /// Returns the value of a numeric option of the scheme, or nullopt if the URL does not have the
  /// option.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view option) const;
  [[nodiscard]] bool has(std::string_view option) const { return options.contains(option); }
};

/// Value of the list of targets that means no targets, so that the host of a job of equals is
/// alone.
inline constexpr std::string_view no_targets = "none";

/// Largest number of targets that a job starts with.
inline constexpr std::uint32_t max_targets = 4000;
/// Largest number of workers of a target.
inline constexpr std::uint32_t max_workers = 64;

/// Reads a comma-separated list such as "shm:4" or "shm?cpu=1,tcp://host:9000?count=2". A count N
/// stands for N targets, and cpu=K gives them the processors K, K+1, …. An item such as
/// "exec:qemu-aarch64 ./app?count=2" is a process of this machine that is started by the given
/// command line. Spaces separate the words of a command line; text in '…' or "…" is taken
/// literally, including commas and question marks. The rows define the schemes and options. Throws
/// setting_error that quotes the wrong item and says what is possible.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text,
                                                    std::span<const transport_entry> rows);

/// Reads a list of targets like the function above, with the table of this program's transports.
[[nodiscard]] std::vector<target_url> parse_targets(std::string_view text);

} // namespace farcall
