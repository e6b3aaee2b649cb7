#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/tcp/client_file.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// A process that was just started, and its children, have at most so much memory of their own.
/// Throws start_failed where the system does not allow it.
void limit_memory(pid_t process, std::uint64_t bytes);

/// The connections that were handed on to a process and that it still has.
class handed_connections {
 public:
  void add(int socket);
  /// As known without a look at the process: at least as many as there are.
  [[nodiscard]] std::size_t most() const noexcept { return all_.size(); }
  /// Forgets those that `process` has closed. One that was handed on less than `grace` ago counts:
  /// it may still be on its way.
  void forget_closed(pid_t process, std::chrono::milliseconds grace);

 private:
  struct connection {
    ino_t number = 0; ///< of the socket, on this machine
    time_point since;
  };
  std::vector<connection> all_;
};

} // namespace farcall::tcp
