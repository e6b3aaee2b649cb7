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

/// How all rivals are measured: the same cores, the same number of batches, a warm-up of a tenth.
struct rival_settings {
  core_pair cores;
  std::size_t batches = 200;
  std::size_t calls = 1000; ///< round trips per batch when both sides spin
  std::size_t sleeping_calls =
      50; ///< the same when both sides sleep in the kernel, which takes far longer

  [[nodiscard]] std::size_t warm_up() const { return batches / 10 + 1; }

  /// How long one of them may take: a minute, and far more than the round trips need.
  [[nodiscard]] std::chrono::seconds limit() const {
    constexpr std::chrono::microseconds per_call{100};
    return std::chrono::minutes{1} +
           std::chrono::ceil<std::chrono::seconds>((batches + warm_up()) * calls * per_call);
  }
};

/// Another way to get eight bytes to another process and eight bytes back.
struct rival {
  std::string key;  ///< in JSON
  std::string what; ///< for people
  /// Nanoseconds per round trip, or the reason why there is no figure: not installed, not built in,
  /// failed.
  std::function<measured(const rival_settings&)> measure;
};

/// Unix socket, pipe, TCP over loopback, and futex, in blocking and busy-polling variants.
[[nodiscard]] std::vector<rival> kernel_rivals();
/// UCX active messages over POSIX shared memory.
[[nodiscard]] rival ucx_rival();
/// UCX active messages over what the user's variables say (UCX_TLS, UCX_NET_DEVICES).
[[nodiscard]] rival ucx_rival_as_set();
/// MPI ping-pong, by a helper program under mpirun.
[[nodiscard]] rival mpi_rival();
/// Its program, beside this one in a build tree and in an installation, if MPI was found.
[[nodiscard]] std::filesystem::path mpi_program();
/// The same over TCP on loopback; of MPIs, Open MPI can be told so.
[[nodiscard]] rival ucx_tcp_rival();
[[nodiscard]] rival mpi_tcp_rival();

/// The round trip of a futex wake-up: each side sleeps at once and is woken by the other. What two
/// processes that give up their cores while they wait cannot beat.
[[nodiscard]] measured futex_round_trip(const rival_settings& settings);

} // namespace farcall::tool
