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

/// Listens on all addresses of the host that this machine has; with port 0, on one free port for
/// all of them; at a path, see listen_at(). "::" stands for all addresses of both families. The
/// sockets do not block and close on exec. Blocks while the name is looked up. Throws error that
/// names the address, the reason and the remedy.
[[nodiscard]] std::vector<unique_fd> listen_on(const address& where);
/// Listens at several places; an address that two of them have counts once.
[[nodiscard]] std::vector<unique_fd> listen_on_all(const std::vector<address>& places);

/// Address of our end, in numbers: where a listener listens. Throws error.
[[nodiscard]] address local_address(int fd);

/// Address of the other end; of no family once it is gone.
[[nodiscard]] socket_address peer_address(int fd) noexcept;
/// The same for messages, and "a process of user 1000" for one of Unix sockets; "an unknown
/// address" once it is gone.
[[nodiscard]] std::string peer_text(int fd);

/// What the system calls a socket, in all processes of this machine that have it. Throws error.
using socket_number = std::uint64_t;
[[nodiscard]] socket_number number_of(int socket);

/// A listener at all addresses of IPv6 serves IPv4, too.
[[nodiscard]] bool takes_ipv4_too(int listener) noexcept;

/// One connection that waits at the listener; nothing when none does. It does not block, closes on
/// exec and sends at once (TCP_NODELAY). Throws error when descriptors or memory have run out.
[[nodiscard]] std::optional<unique_fd> accept_from(int listener);

/// As many connections wait at a Unix socket as may; another attempt may have more luck.
class listener_busy : public error {
 public:
  using error::error;
};

/// Begins to connect and returns meanwhile; the socket becomes writable when it is decided. It does
/// not block, closes on exec and sends at once. Throws error when the attempt fails already, and
/// listener_busy.
[[nodiscard]] unique_fd start_connect(const socket_address& where);

/// Why an attempt failed, in words.
[[nodiscard]] std::string connect_failure_text(const socket_address& at, int reason);

/// Both ends have one address.
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;

/// Connects to whichever address replies first; see connect_attempts. `name` stands for all in
/// messages. Blocks until then. Throws error that names the addresses and the reasons, and timeout
/// when the deadline passes.
[[nodiscard]] unique_fd connect_to_first(std::vector<socket_address> where, const std::string& name,
                                         time_point deadline);
/// The same with all addresses of the host.
[[nodiscard]] unique_fd connect_to(const address& where, time_point deadline);

/// Has the kernel probe an idle connection, the first time after half of `heartbeat_timeout`, and
/// then four times in that time; a time of 0 leaves that off, and times count in seconds, from 2
/// up. The path monitor ends a connection whose probes get no reply; the kernel does so only after
/// three and a half of these times. Also turns on TCP_NODELAY. Connections of Unix sockets need
/// none of it. Throws error for what is neither.
void set_options(int fd, std::chrono::milliseconds heartbeat_timeout);

/// The longest time between two repetitions of what is not acknowledged, where the peer may be
/// silent for `timeout`. What the system waits grows otherwise, and a path that is there again is
/// found late.
[[nodiscard]] std::chrono::milliseconds repetition_gap(std::chrono::milliseconds timeout) noexcept;
/// Has the system keep to it, from Linux 6.15 on.
void limit_repetition_gap(int fd, std::chrono::milliseconds timeout) noexcept;

/// Gives a connection up: the system throws away all that it has not delivered, which would arrive
/// at any later time otherwise. Reads and writes find the connection's end. The descriptor stays
/// the caller's.
void abort_connection(int fd) noexcept;

/// What comes is acknowledged with what is sent, or a little later: an acknowledgement by itself
/// costs the receiver about as much as a message. The kernel forgets this now and then.
void delay_acknowledgements(int fd) noexcept;

} // namespace farcall::tcp
