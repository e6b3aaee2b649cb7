// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/pinning.hpp>

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace farcall::tool {

/// Returns a socket that listens on 127.0.0.1, at a free port. Closes on exec.
[[nodiscard]] unique_fd listen_on_loopback();

/// Returns a new connection to such a socket, which has yet to be accepted. The connection is
/// blocking, sends at once (TCP_NODELAY), and closes on exec.
[[nodiscard]] unique_fd connect_to_loopback(int listener);

/// Accepts the other end, with the same options. Blocks until there is one.
[[nodiscard]] unique_fd accept_on_loopback(int listener);

/// Reads and writes a socket without sleeping in the kernel: operations that would block are
/// repeated at once.
class polling_stream {
 public:
  /// `yield_every`: failed attempts after which the processor is yielded.
  polling_stream(unique_fd socket, std::uint32_t yield_every);

  /// Receives exactly that many bytes; returns false if the other side has gone.
  [[nodiscard]] bool receive(std::span<std::byte> to);
  [[nodiscard]] bool send(std::span<const std::byte> from);
  /// Sleeps until there are bytes to read, at most a second.
  void sleep_until_readable() const;

 private:
  /// True if a failed system call should be repeated.
  [[nodiscard]] bool try_again();

  unique_fd socket_;
  std::uint32_t yield_every_;
  std::uint32_t vain_ = 0;
};

/// Returns the attempts between yields: many if each side has its own processor, few if both share
/// one.
[[nodiscard]] constexpr std::uint32_t yield_interval(core_pair cores) {
  return cores.shared() ? 4 : 256;
}

} // namespace farcall::tool
