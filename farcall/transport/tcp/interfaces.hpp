// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstdint>
#include <vector>

namespace farcall::tcp {

/// Listens on all addresses of this machine, IPv6 and IPv4, all with the same free port. Returns
/// sockets like listen_on(). Throws error.
[[nodiscard]] std::vector<unique_fd> listen_everywhere();

/// Returns the addresses of the network interfaces of this machine that are up, each once, with
/// this port. Leaves out link-local addresses. The loopback addresses are returned only if there
/// are no others. Throws error.
[[nodiscard]] std::vector<socket_address> interface_addresses(std::uint16_t port);

/// Returns the numeric addresses at which other machines reach a process that listens at
/// `listening`. An address that stands for all addresses of the machine is replaced by the
/// addresses of its interfaces. Throws error.
[[nodiscard]] std::vector<socket_address>
reachable_addresses(const std::vector<address>& listening);

/// True if an interface of this machine has the address; the port does not matter.
[[nodiscard]] bool is_own(const socket_address& a);

/// Moves those addresses to the front that are in a network of one of this machine's interfaces,
/// and the paths of Unix sockets.
void put_nearest_first(std::vector<socket_address>& addresses);

} // namespace farcall::tcp
