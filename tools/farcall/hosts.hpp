// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A line of the file that `farcall run --hosts` reads: a host, and the server that is started
/// there.
struct host_entry {
  std::string name;    ///< host name for ssh, with user@ if the file has it
  std::string address; ///< address of its server
  std::size_t count = 1;
  std::uint16_t port = 0; ///< port of the host's server; 0 if the server may choose any free port
};

/// Parses lines "host [slots=N] [address=NAME] [port=N]". The character # begins a comment. count=
/// is another spelling of slots=, the word that MPI uses. `what` is the name of the text in error
/// messages. Throws usage_problem that names the line.
[[nodiscard]] std::vector<host_entry> parse_hosts(std::string_view text, const std::string& what);

/// Reads a file of hosts, and parses it by parse_hosts().
[[nodiscard]] std::vector<host_entry> read_hosts(const std::string& file);

/// Gives this port to all hosts that have no port of their own, unless `port` is zero. Throws
/// usage_problem if two hosts have the same address and the same port.
void set_ports(std::vector<host_entry>& hosts, std::uint16_t port);

/// Returns the text "host:port" for the option --listen of a host's server. If the host's address
/// is numeric, the server listens at this address only. If it is a name, the server listens at all
/// addresses of its machine, because many machines resolve their own name to 127.0.1.1. Asks name
/// servers whether a name has IPv6 addresses only, and may block meanwhile.
[[nodiscard]] std::string listen_address(const host_entry& host);

/// Joins words to a command line for a shell. Words are quoted where the shell would change them.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

/// The program that the servers of `farcall run --hosts` serve, and the options of these servers.
struct served_program {
  std::string program;
  std::vector<std::string> arguments;
  /// Working folder of the targets. If it is empty, they use the folder in which ssh starts its
  /// command.
  std::string folder;
  /// True if the folder must exist; false if it is used only where it exists.
  bool needs_folder = false;
  bool uses_host_files = false; ///< hosts may forward files
  std::string host_files_by;    ///< value of --host-files-by; empty if it is not given
  bool takes_exports = false;   ///< variables follow the key
};

/// Returns the command line that starts a host's server. It consists of the words of `ssh`, the
/// name of the host, and a command for the shell of the host. May block like listen_address().
[[nodiscard]] std::vector<std::string> serve_command(const std::string& ssh, const host_entry& host,
                                                     const served_program& served);

} // namespace farcall::tool
