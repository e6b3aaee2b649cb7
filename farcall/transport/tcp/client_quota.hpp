#pragma once

#include <farcall/transport/tcp/client_file.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/types.h>

/// How a server holds a client's targets to its limits. They are against mistakes and crowding:
/// targets run the client's code with the server's rights, and code that means to can go beyond
/// them.
namespace farcall::tcp {

/// Throws start_failed when a client with that many targets may have no more.
void require_room(const std::string& client, const client_limits& limits, std::uint32_t targets);

/// As long as it lives, the calling thread, and so the processes that it starts, run on those
/// processors only; none: wherever they may. Throws start_failed when the machine has none of them.
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

/// Logs a warning for each client that may use processors on which nothing can run here, as the
/// machine lacks them. They are no error: machines share such files, and a client's limits are not
/// to keep others out. `file` is for messages.
void warn_of_unusable_cpus(const std::string& file, const client_table& clients);

/// A process that was just started, and its children, have at most so much memory of their own.
/// Throws start_failed where the system does not allow it.
void limit_memory(pid_t process, std::uint64_t bytes);

/// The connections that a process has taken in, as it tells its server: those that have proved that
/// they belong to its job. Others cost its client nothing.
class taken_connections {
 public:
  /// `socket` is its number on this machine. More than 65,536 are not counted.
  void add(socket_number socket);
  /// As known without a look at the process: at least as many as there are.
  [[nodiscard]] std::size_t most() const noexcept { return all_.size(); }
  /// Forgets those that `process` has closed.
  void forget_closed(pid_t process);

 private:
  std::set<socket_number> all_;
};

} // namespace farcall::tcp
