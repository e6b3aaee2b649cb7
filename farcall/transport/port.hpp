// SPDX-License-Identifier: Apache-2.0
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

/// Ports by which processes that the host has not started connect to the host and join its job. The
/// functions correspond to MPI_Open_port, MPI_Comm_accept and MPI_Comm_connect.
namespace farcall {

/// A process that has connected to a port and has proved that it belongs to the job.
struct arrival {
  node_id rank = no_node; ///< as the process claims
  unique_fd socket;       ///< a control socket
  /// true if the process runs on this machine, and the socket carries descriptors
  bool is_near = false;
  std::string process; ///< name of the process in messages: "process 7", "a process at
                       ///< 192.0.2.1:9"
  /// Relay through which the socket's bytes pass, or null. Must be kept as long as the socket is
  /// used.
  std::shared_ptr<void> keeps;
};

/// Accepts processes that the host has not started and that become its targets. One thread uses it.
class port {
 public:
  port() = default;
  port(const port&) = delete;
  port& operator=(const port&) = delete;
  /// Closes the port. Processes that were accepted are not affected.
  virtual ~port() = default;

  /// Returns the data that a process needs to connect to this port, a few hundred bytes. The data
  /// is secret, because any process that knows it can connect.
  [[nodiscard]] virtual std::vector<std::byte> name() const = 0;

  /// Returns a descriptor that is readable if accept() may return a process.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;

  /// Returns the next process that has connected, or nullopt if there is none now. Never blocks.
  [[nodiscard]] virtual std::optional<arrival> accept() = 0;
};

/// Connection from a process to the port of its host.
struct port_connection {
  unique_fd socket; ///< control socket for target_side::join()
  /// Relay through which the socket's bytes pass, or null. Must be kept as long as the socket is
  /// used.
  std::shared_ptr<void> keeps;
};

} // namespace farcall
