// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Listens on all addresses of the host name that belong to this machine. Port 0 chooses one free
/// port for all of them. The name "::" means all addresses of both families. A path is handled by
/// listen_at(). The sockets are non-blocking and close-on-exec. Blocks while the name is looked up.
/// Throws error with the address, the reason and the remedy.
[[nodiscard]] std::vector<unique_fd> listen_on(const address& where);
/// Listens at several places. An address is skipped if an earlier place listens on the same address
/// and port, or on all addresses of its family with this port.
[[nodiscard]] std::vector<unique_fd> listen_on_all(const std::vector<address>& places);

/// Returns the numeric address of the socket's own end, or of a listener. Throws error.
[[nodiscard]] address local_address(int fd);

/// Returns the address of the other end. The family of the address is AF_UNSPEC if the peer is
/// gone.
[[nodiscard]] socket_address peer_address(int fd) noexcept;
/// Returns a text for the peer's address in messages. The text is "a process of user 1000" for a
/// Unix socket, and "an unknown address" if the peer is gone.
[[nodiscard]] std::string peer_text(int fd);

/// Inode number of a socket, which is the same in all processes of this machine that have the
/// socket. Throws error.
using socket_number = std::uint64_t;
[[nodiscard]] socket_number number_of(int socket);

/// True if a listener at all IPv6 addresses ("::") also accepts IPv4 connections.
[[nodiscard]] bool takes_ipv4_too(int listener) noexcept;

/// Accepts one connection that waits at the listener; nullopt if none waits. The new socket is
/// non-blocking and close-on-exec, and has TCP_NODELAY. Throws error if descriptors or memory are
/// exhausted.
[[nodiscard]] std::optional<unique_fd> accept_from(int listener);

/// Thrown if the backlog of a Unix socket's listener is full, so that a later attempt may succeed.
class listener_busy : public error {
 public:
  using error::error;
};

/// Begins to connect, and returns a socket that becomes writable when the outcome is known. The
/// socket is non-blocking and close-on-exec, and has TCP_NODELAY. Throws error if the attempt fails
/// at once, and listener_busy if the backlog of a Unix socket's listener is full.
[[nodiscard]] unique_fd start_connect(const socket_address& where);

/// Returns the reason why an attempt to connect has failed, in words.
[[nodiscard]] std::string connect_failure_text(const socket_address& at, int reason);

/// True if the socket is connected to itself, that is, if both ends have the same address.
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;

/// Connects to the address that replies first; see connect_attempts. Errors call the goal of all
/// attempts `name`. Blocks until the connection is made. Throws error with the addresses and the
/// reasons, and timeout at the deadline.
[[nodiscard]] unique_fd connect_to_first(std::vector<socket_address> where, const std::string& name,
                                         time_point deadline);
/// Connects to the first address of the host name that replies.
[[nodiscard]] unique_fd connect_to(const address& where, time_point deadline);

/// Sets TCP_NODELAY, and makes the kernel probe an idle connection. The first probe is sent after
/// half of `heartbeat_timeout`, and another one after each further quarter of it. The timeout is
/// rounded down to seconds, at least 2. A timeout of 0 leaves probes off. The path monitor ends a
/// connection whose probes get no reply; the kernel does so only after three and a half timeouts.
/// Does nothing for Unix sockets. Throws error if `fd` is of neither kind.
void set_options(int fd, std::chrono::milliseconds heartbeat_timeout);

/// Returns a limit for the time between two retransmissions, for a peer that may be silent for
/// `timeout`. Without such a limit, the system doubles the time again and again, and notices late
/// that a path has recovered.
[[nodiscard]] std::chrono::milliseconds repetition_gap(std::chrono::milliseconds timeout) noexcept;
/// Limits the time between two retransmissions of a connection to repetition_gap(); effective from
/// Linux 6.15 on.
void limit_repetition_gap(int fd, std::chrono::milliseconds timeout) noexcept;

/// Resets a connection, so that the system discards undelivered bytes, which could otherwise arrive
/// at any later time. Reads and writes then see that the connection has ended. The caller still
/// owns the descriptor.
void abort_connection(int fd) noexcept;

/// Delays acknowledgements, so that they are sent together with data, or a little later, because a
/// separate acknowledgement costs the receiver about as much as a message. The kernel resets this
/// mode now and then.
void delay_acknowledgements(int fd) noexcept;

} // namespace farcall::tcp
