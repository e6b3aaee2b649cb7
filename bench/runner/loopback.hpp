#pragma once

#include <tools/common/pinning.hpp>

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace farcall::tool {

/// A socket that listens on 127.0.0.1, at a port that was free. Closes on exec.
[[nodiscard]] unique_fd listen_on_loopback();

/// A new connection to such a socket, which waits there to be accepted. Sends at once
/// (TCP_NODELAY), blocks, closes on exec.
[[nodiscard]] unique_fd connect_to_loopback(int listener);

/// The other end of it, likewise. Blocks until there is one.
[[nodiscard]] unique_fd accept_on_loopback(int listener);

/// Reads and writes of a socket without ever sleeping in the kernel: what cannot be done yet is
/// tried again at once.
class polling_stream {
 public:
  /// `yield_every`: tries in vain after which the processor is offered to others.
  polling_stream(unique_fd socket, std::uint32_t yield_every);

  /// Exactly so many bytes; false when the other side has gone.
  [[nodiscard]] bool receive(std::span<std::byte> to);
  [[nodiscard]] bool send(std::span<const std::byte> from);
  /// Sleeps until there is something to read, a second at most.
  void sleep_until_readable() const;

 private:
  /// After a system call that failed: whether it is worth another try.
  [[nodiscard]] bool try_again();

  unique_fd socket_;
  std::uint32_t yield_every_;
  std::uint32_t vain_ = 0;
};

/// Offers the processor now and then when each side has its own, and nearly at once when both need
/// the same one.
[[nodiscard]] constexpr std::uint32_t yield_interval(core_pair cores) {
  return cores.shared() ? 4 : 256;
}

} // namespace farcall::tool
