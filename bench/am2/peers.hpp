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

/// The program of two processes, by the interface of AM-2, that `farcall bench am2` measures: each
/// bound to one of the cores, the second one over shm, or tcp behind a server on loopback.
///
/// It forks, so make it before any thread or job is started. Between measurements both sleep.
class am2_peers {
 public:
  am2_peers(link_kind kind, core_pair cores);
  ~am2_peers();
  am2_peers(const am2_peers&) = delete;
  am2_peers& operator=(const am2_peers&) = delete;
  am2_peers(am2_peers&&) = delete;
  am2_peers& operator=(am2_peers&&) = delete;

  /// Nanoseconds per operation, one sample per batch. program.cpp names what there is.
  [[nodiscard]] std::vector<double> measure(std::string_view what, std::size_t bytes,
                                            std::size_t batches, std::size_t operations);

  void wait_until_idle() const;

 private:
  [[nodiscard]] std::string read_line();

  std::unique_ptr<server_process> server_;
  unique_fd stream_; ///< its standard input and output
  std::unique_ptr<forked_process> process_;
  std::array<int, 2> pids_{};
  std::string received_;
};

} // namespace farcall::tool
