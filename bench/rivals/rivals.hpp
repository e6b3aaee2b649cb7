// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/forked_process.hpp>
#include <tools/common/pinning.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace farcall::tool {

/// Settings that all rivals share: cores, number of batches, and a warm-up of a tenth.
struct rival_settings {
  core_pair cores;
  std::size_t batches = 200;
  std::size_t calls = 1000; ///< round trips per batch if both sides spin
  std::size_t sleeping_calls =
      50; ///< round trips per batch if both sides sleep in the kernel, which takes far longer

  [[nodiscard]] std::size_t warm_up() const { return batches / 10 + 1; }

  /// Time limit of one rival: a minute, and far more than the round trips need.
  [[nodiscard]] std::chrono::seconds limit() const {
    constexpr std::chrono::microseconds per_call{100};
    return std::chrono::minutes{1} +
           std::chrono::ceil<std::chrono::seconds>((batches + warm_up()) * calls * per_call);
  }
};

/// Another way to send eight bytes to another process and receive eight bytes back.
struct rival {
  std::string key;  ///< name in JSON
  std::string what; ///< name for people
  /// Returns nanoseconds per round trip, or the reason for having no figure: not installed, not
  /// built in, failed.
  std::function<measured(const rival_settings&)> measure;
};

/// Returns Unix socket, pipe, TCP over loopback, and futex, in blocking and busy-polling variants.
[[nodiscard]] std::vector<rival> kernel_rivals();
/// Returns UCX active messages over POSIX shared memory.
[[nodiscard]] rival ucx_rival();
/// Returns UCX active messages over the transports of the user's variables (UCX_TLS,
/// UCX_NET_DEVICES).
[[nodiscard]] rival ucx_rival_as_set();
/// Kind of socket under a rival.
enum class socket_kind { unix_socket, tcp };
/// Return a request and its reply by ZeroMQ and by gRPC, between helper programs that exist if the
/// libraries were found.
[[nodiscard]] rival zeromq_rival(socket_kind kind);
[[nodiscard]] rival grpc_rival(socket_kind kind);
/// Returns an MPI ping-pong, by a helper program under mpirun.
[[nodiscard]] rival mpi_rival();
/// Returns the path of the helper program, beside this one; it exists if MPI was found.
[[nodiscard]] std::filesystem::path mpi_program();
/// Returns the mpirun command to put before a program and its arguments. Stores the first line of
/// its version in `version`. Throws failed_run if there is no mpirun.
[[nodiscard]] std::vector<std::string> words_of_mpirun(std::size_t processes, std::string& version);
/// Return UCX and MPI over TCP on loopback; of the MPIs, only Open MPI can be restricted to it.
[[nodiscard]] rival ucx_tcp_rival();
[[nodiscard]] rival mpi_tcp_rival();

/// Measures the round trip of a futex wake-up: each side sleeps at once and is woken by the other.
/// A lower bound for processes that give up their cores while they wait.
[[nodiscard]] measured futex_round_trip(const rival_settings& settings);

} // namespace farcall::tool
