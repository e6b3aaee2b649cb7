// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/server/client_file.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/types.h>

/// Limits that a server enforces on a client's targets. They protect against mistakes and overload,
/// not against attacks: targets run the client's code with the server's rights, and malicious code
/// can exceed them.
namespace farcall::detail {

/// Throws start_failed if the client's limit allows no further target; `targets` is the number of
/// targets that the client has now.
void require_space(const std::string& client, const client_limits& limits, std::uint32_t targets);

/// Restricts the calling thread, and the processes that it starts, to the processors `cpus` as long
/// as this object lives. An empty `cpus` restricts nothing. Throws start_failed if the restriction
/// is impossible, for instance because the machine has none of the processors.
class cpu_restriction {
 public:
  cpu_restriction(const std::string& client, const std::vector<unsigned>& cpus);
  cpu_restriction(const cpu_restriction&) = delete;
  cpu_restriction& operator=(const cpu_restriction&) = delete;
  ~cpu_restriction();

 private:
  cpu_set_t before_{};
  bool is_restricted_ = false;
};

/// Logs a warning for each client whose limits name processors that cannot be used on this machine.
/// Such limits are no error, because several machines may share a file of clients, and the limits
/// of one client must not lock the others out. The warning names the file as `file`.
void warn_of_unusable_cpus(const std::string& file, const client_table& clients);

/// Limits the private memory of a process that was just started. The same limit applies to each
/// child of that process. Throws start_failed if the system refuses.
void limit_memory(pid_t process, std::uint64_t bytes);

/// Connections that a target has accepted, as the target reports them to its server. A target
/// reports only connections that have proved that they belong to its job, and only these
/// connections count against the client.
class taken_connections {
 public:
  /// Counts a connection, which is identified by the inode number of its socket on this machine. At
  /// most 65,536 connections are counted.
  void add(tcp::socket_number socket);
  /// Returns the number of counted connections. The target may have closed some of them since the
  /// last call of forget_closed(), so that the number is an upper bound.
  [[nodiscard]] std::size_t most() const noexcept { return all_.size(); }
  /// Removes closed connections of the target with the process id `process` from the count.
  void forget_closed(pid_t process);

 private:
  std::set<tcp::socket_number> all_;
};

} // namespace farcall::detail
