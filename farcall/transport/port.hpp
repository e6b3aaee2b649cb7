#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// How processes that something else than the host has started come to it. As MPI_Open_port,
/// MPI_Comm_accept and MPI_Comm_connect.
namespace farcall {

/// A process that has come to a port, and proved that it belongs to the job.
struct arrival {
  node_id rank = no_node;      ///< as it says
  unique_fd socket;            ///< a control socket
  bool is_near = false;        ///< it runs on this machine, and the socket carries descriptors
  std::string process;         ///< for people: "process 7", "a process at 192.0.2.1:9"
  std::shared_ptr<void> keeps; ///< what its bytes go through; lives as long as the socket is used
};

/// Where processes come that the host has not started, to become its targets. Used by one thread.
class port {
 public:
  port() = default;
  port(const port&) = delete;
  port& operator=(const port&) = delete;
  /// Nobody comes any more; those that have stay.
  virtual ~port() = default;

  /// What they need to know, a few hundred bytes. It is secret: who knows it can come.
  [[nodiscard]] virtual std::vector<std::byte> name() const = 0;

  /// Readable while accept() has something, or may have.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;

  /// The next that has come; nothing: none has. Never blocks.
  [[nodiscard]] virtual std::optional<arrival> accept() = 0;
};

/// A process's connection to the port of its host.
struct port_connection {
  unique_fd socket;            ///< a control socket: what membership::join() takes
  std::shared_ptr<void> keeps; ///< what its bytes go through; lives as long as the socket is used
};

} // namespace farcall
