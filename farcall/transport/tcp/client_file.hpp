#pragma once

#include <farcall/transport/tcp/secret.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tcp {

/// What the targets of one client may take on a server. Nothing: as much as the server's.
struct client_limits {
  std::optional<std::uint32_t> targets; ///< at a time
  std::optional<std::uint64_t> memory;  ///< bytes of each target
  std::vector<unsigned> cpus;           ///< processors that they run on, in order; none: all
  std::optional<std::uint32_t> lanes;   ///< connections of nodes to all of them at a time

  bool operator==(const client_limits&) const = default;
};

/// Clients by name.
using client_table = std::map<std::string, client_limits, std::less<>>;

/// Who may come to a server, as a file of clients says. A client may have several keys, as while
/// one replaces another.
struct client_file {
  client_table clients;
  std::vector<named_key> keys;
};

/// Reads lines of
///
///     NAME KEY [targets=N] [memory=N[k|M|G]] [cpus=0-3,8] [lanes=N]
///
/// Empty lines, and what follows a #, count for nothing. Where a name stands on several lines, each
/// limit is given once, or the same on all of them. Throws setting_error under the conditions of
/// read_private_file, and for a line of another kind, with its number and never with its content.
[[nodiscard]] client_file read_client_file(const std::string& path);

} // namespace farcall::tcp
