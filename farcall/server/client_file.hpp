// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/secret.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace farcall::detail {

/// Limits of one client's targets on a server. If a limit has no value, only the server's own
/// limits apply.
struct client_limits {
  /// Largest number of targets that the client may have at a time.
  std::optional<std::uint32_t> targets;
  std::optional<std::uint64_t> memory; ///< largest number of bytes of memory of each target
  /// Processors on which the client's targets run, sorted; empty if they may run on all
  std::vector<unsigned> cpus;
  /// Largest number of connections that nodes may have to all targets of this client together.
  std::optional<std::uint32_t> lanes;

  bool operator==(const client_limits&) const = default;
};

/// Clients by name.
using client_table = std::map<std::string, client_limits, std::less<>>;

/// Content of a file of clients, which lists the clients that may use a server. A client may have
/// several keys, for instance while a new key replaces an old one.
struct client_file {
  client_table clients;
  std::vector<tcp::named_key> keys;
};

/// Reads lines of
///
///     NAME KEY [targets=N] [memory=N[k|M|G]] [cpus=0-3,8] [lanes=N]
///
/// Reads a file of clients. Ignores empty lines, and text after a #. A client may have several
/// lines, which may repeat a limit only with the same value. Throws setting_error if
/// read_private_file() cannot read the file, or if a line does not have the form above. The error
/// for a line has the line's number but never its content, because a line holds a key.
[[nodiscard]] client_file read_client_file(const std::string& path);

} // namespace farcall::detail
