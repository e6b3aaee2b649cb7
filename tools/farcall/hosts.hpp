#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A line of the file of `farcall run --hosts`.
struct host_entry {
  std::string name;    ///< as ssh takes it, with user@ where there is one
  std::string address; ///< where its server listens and is reached
  std::size_t count = 1;
};

/// Reads "host [count=N] [address=NAME]" per line; # begins a comment. `what` names the text in
/// errors. Throws usage_problem that names the line.
[[nodiscard]] std::vector<host_entry> parse_hosts(std::string_view text, const std::string& what);

/// As parse_hosts, of a file's content.
[[nodiscard]] std::vector<host_entry> read_hosts(const std::string& file);

/// The words as one shell takes them, quoted where needed.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

/// What is started for a host: the words of `ssh`, its name, and a command for the shell there,
/// which serves targets that run `program`, in that folder; empty: in the one that ssh begins in.
[[nodiscard]] std::vector<std::string> serve_command(const std::string& ssh, const host_entry& host,
                                                     const std::string& folder,
                                                     const std::string& program,
                                                     const std::vector<std::string>& arguments,
                                                     bool uses_host_files = false);

} // namespace farcall::tool
