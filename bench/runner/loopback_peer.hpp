// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loopback.hpp"

#include <tools/common/pinning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace farcall::tool {

class forked_process;

/// A process on the target's core, at the other end of a bare TCP connection over loopback: the
/// baseline of transports over TCP. Both sides poll; between measurements the process sleeps.
///
/// The constructor forks, so create it before any thread or job is started.
class loopback_peer {
 public:
  explicit loopback_peer(core_pair cores);
  ~loopback_peer();
  loopback_peer(const loopback_peer&) = delete;
  loopback_peer& operator=(const loopback_peer&) = delete;
  loopback_peer(loopback_peer&&) = delete;
  loopback_peer& operator=(loopback_peer&&) = delete;

  /// Makes a new connection, in place of an existing one.
  void connect();
  void disconnect();

  /// Sends sixteen bytes and receives them back.
  void round_trip();

  /// Gives the peer a buffer of that size, touched.
  void reserve(std::size_t bytes);
  /// Sends the bytes, at most the size of the peer's buffer, and waits for the acknowledgement that
  /// all have arrived in it.
  void send(std::span<const std::byte> from);
  /// Requests the first bytes of the peer's buffer and receives them.
  void fetch(std::span<std::byte> to);

  /// Lets the peer sleep until the next request.
  void rest();

 private:
  struct request;
  void exchange(std::uint32_t kind, std::uint64_t number);
  void require(bool done);

  core_pair cores_;
  unique_fd listener_;
  std::unique_ptr<forked_process> process_;
  std::optional<polling_stream> stream_;
  std::uint64_t sent_ = 0;
};

} // namespace farcall::tool
