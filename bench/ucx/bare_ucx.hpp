// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace farcall::tool {

/// Bare UCX between two processes, over the transports of UCX_TLS: round trips by ucp_am, and
/// copies by ucp_put_nbx and ucp_get_nbx between memory that UCX has allocated, like ucx_perftest.
/// Both processes sleep between measurements.
///
/// The constructor forks, so create it before any thread or job is started. Both sides are forked
/// processes, because UCX cannot be used in a child of a process that uses it.
class bare_ucx {
 public:
  /// Messages of round trips: eight bytes, or the bytes of an empty call over a lane, with UCX's
  /// events, by which a sleeping process can be woken.
  enum class messages : std::uint8_t { plain, like_calls };

  /// `most_bytes` is the size of the largest copy; 0 if there are round trips only.
  bare_ucx(core_pair cores, std::size_t most_bytes, messages kind = messages::plain);
  ~bare_ucx();
  bare_ucx(const bare_ucx&) = delete;
  bare_ucx& operator=(const bare_ucx&) = delete;
  bare_ucx(bare_ucx&&) = delete;
  bare_ucx& operator=(bare_ucx&&) = delete;

  /// Return nanoseconds per operation. Throw failed_run if the processes have failed.
  [[nodiscard]] double round_trips(std::size_t count) { return ask({work::round_trips, count, 0}); }
  [[nodiscard]] double puts(std::size_t count, std::size_t bytes) {
    return ask({work::puts, count, bytes});
  }
  [[nodiscard]] double gets(std::size_t count, std::size_t bytes) {
    return ask({work::gets, count, bytes});
  }

  /// Work that the measuring process is asked for.
  enum class work : std::uint64_t { round_trips, puts, gets };
  struct request {
    work what;
    std::uint64_t count;
    std::uint64_t bytes;
  };

 private:
  [[nodiscard]] double ask(const request& r);

  unique_fd to_;
  std::unique_ptr<forked_process> process_;
};

} // namespace farcall::tool
