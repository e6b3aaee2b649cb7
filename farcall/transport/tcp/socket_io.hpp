#pragma once

#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <span>
#include <string>

#include <sys/uio.h>

/// System calls that streams are made of. They never block, never raise SIGPIPE, and take any
/// number of parts.
namespace farcall::tcp {

/// Result of one system call; `reason` is an errno value with `failed`, 0 otherwise.
struct socket_result {
  io_status status{};
  std::size_t bytes = 0;
  int reason = 0;
};

[[nodiscard]] socket_result receive_some(int fd, std::span<const iovec> parts) noexcept;
[[nodiscard]] socket_result send_some(int fd, std::span<const iovec> parts) noexcept;

/// Words for the end of a connection, with what to do about it where that is known.
[[nodiscard]] std::string socket_failure_text(int reason);
/// Whether that value says that the other side has ended the connection.
[[nodiscard]] bool is_break(int reason) noexcept;

} // namespace farcall::tcp
