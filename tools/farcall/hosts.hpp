#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A line of the file of `farcall run --hosts`.
struct host_entry {
  std::string name;    ///< as ssh takes it, with user@ where there is one
  std::string address; ///< where its server is reached
  std::size_t count = 1;
  std::uint16_t port = 0; ///< of its server; 0: any that is free
};

/// Reads "host [slots=N] [address=NAME] [port=N]" per line; # begins a comment, and count= is
/// another word for slots=, the one of MPI. `what` names the text in errors. Throws usage_problem
/// that names the line.
[[nodiscard]] std::vector<host_entry> parse_hosts(std::string_view text, const std::string& what);

/// As parse_hosts, of a file's content.
[[nodiscard]] std::vector<host_entry> read_hosts(const std::string& file);

/// Has the servers of those without a port of their own listen at `port`; 0: they keep any. Throws
/// usage_problem where two of one machine would have the same.
void set_ports(std::vector<host_entry>& hosts, std::uint16_t port);

/// "host:port" for the server's `--listen`: where its address is a number, only that. Behind a name
/// it is all addresses of the machine: many have 127.0.1.1 for their own name. Asks name servers,
/// which may block, whether the name is one of IPv6 only.
[[nodiscard]] std::string listen_address(const host_entry& host);

/// The words as one shell takes them, quoted where needed.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

/// What the servers of all hosts serve, and how.
struct served_program {
  std::string program;
  std::vector<std::string> arguments;
  std::string folder;           ///< of the targets; empty: the one that ssh begins in
  bool needs_folder = false;    ///< else it counts where it exists
  bool uses_host_files = false; ///< hosts may forward files
  bool takes_exports = false;   ///< variables come behind the key
};

/// What is started for a host: the words of `ssh`, its name, and a command for the shell there. May
/// block as listen_address().
[[nodiscard]] std::vector<std::string> serve_command(const std::string& ssh, const host_entry& host,
                                                     const served_program& served);

} // namespace farcall::tool
