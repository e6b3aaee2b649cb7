// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <span>
#include <string>

#include <sys/uio.h>

/// System calls on which streams are implemented. They never block, never raise SIGPIPE, and take
/// any number of parts.
namespace farcall::tcp {

/// Result of one system call. `reason` is an errno value if the status is `failed`, and 0
/// otherwise.
struct socket_result {
  io_status status{};
  std::size_t bytes = 0;
  int reason = 0;
};

[[nodiscard]] socket_result receive_some(int fd, std::span<const iovec> parts) noexcept;
[[nodiscard]] socket_result send_some(int fd, std::span<const iovec> parts) noexcept;

/// Returns in words why a connection has ended, with a remedy if one is known.
[[nodiscard]] std::string socket_failure_text(int reason);
/// True if this errno value means that the peer has ended the connection.
[[nodiscard]] bool is_break(int reason) noexcept;

} // namespace farcall::tcp
