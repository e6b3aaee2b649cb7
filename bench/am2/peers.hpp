// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/link.hpp>
#include <bench/runner/server_process.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/base/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

class forked_process;

/// The two processes of farcall-bench-am2, an AM-2 program that `farcall bench am2` measures. Each
/// is bound to a core; the second one is reached over shm, or over tcp by a server on loopback.
///
/// Forks, so create it before any thread or job is started. Between measurements both processes
/// sleep.
class am2_peers {
 public:
  am2_peers(link_kind kind, core_pair cores);
  ~am2_peers();
  am2_peers(const am2_peers&) = delete;
  am2_peers& operator=(const am2_peers&) = delete;
  am2_peers(am2_peers&&) = delete;
  am2_peers& operator=(am2_peers&&) = delete;

  /// Returns nanoseconds per operation, one sample per batch. `what` is a figure's name in
  /// program.cpp.
  [[nodiscard]] std::vector<double> measure(std::string_view what, std::size_t bytes,
                                            std::size_t batches, std::size_t operations);

  void wait_until_idle() const;

 private:
  [[nodiscard]] std::string read_line();

  std::unique_ptr<server_process> server_;
  unique_fd stream_; ///< process 0's standard input and output
  std::unique_ptr<forked_process> process_;
  std::array<int, 2> pids_{};
  std::string received_;
};

} // namespace farcall::tool
