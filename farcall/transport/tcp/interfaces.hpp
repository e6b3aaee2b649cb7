#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstdint>
#include <vector>

namespace farcall::tcp {

/// Listens on all addresses of this machine, IPv6 and IPv4, on one free port. The sockets are those
/// of listen_on(). Throws error.
[[nodiscard]] std::vector<unique_fd> listen_everywhere();

/// Addresses of this machine's interfaces that are up, with that port, each once: those that other
/// machines may reach, or the loopback ones where there are no others. Throws error.
[[nodiscard]] std::vector<socket_address> interface_addresses(std::uint16_t port);

/// Where one is reached who listens at these, in numbers: addresses that stand for all of the
/// machine's are replaced by those of its interfaces. Throws error.
[[nodiscard]] std::vector<socket_address>
reachable_addresses(const std::vector<address>& listening);

/// One of this machine's interfaces has it, whatever the port.
[[nodiscard]] bool is_own(const socket_address& a);

/// Puts first what is in a network that this machine has an interface in.
void put_nearest_first(std::vector<socket_address>& addresses);

} // namespace farcall::tcp
