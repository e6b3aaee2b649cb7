// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace farcall::tcp {
namespace {

/// Limit of a node's addresses, so that they fit into a card together with the other data
/// (docs/wire.md).
constexpr std::uint32_t max_addresses = 32;
constexpr const char* what_of_addresses = "a node's addresses";

} // namespace

node_address address_in(const std::string& network, const socket_address& where) {
  // Network name that stands for a network whose identity is unknown. An address that is valid only
  // in a network of this name is not used anywhere.
  constexpr const char* unknown = "unknown";
  if (!where.is_loopback() && !where.is_of_link()) return {where.text(), ""};
  return {where.text(), network.empty() ? unknown : network};
}

void add_addresses(std::vector<node_address>& to, const std::vector<node_address>& more) {
  for (const node_address& a : more) {
    if (std::ranges::find(to, a) == to.end()) to.push_back(a);
  }
}

void write_addresses(byte_writer& to, std::span<const node_address> addresses) {
  addresses = addresses.first(std::min<std::size_t>(addresses.size(), max_addresses));
  to.number(static_cast<std::uint32_t>(addresses.size()));
  for (const node_address& a : addresses) {
    to.text(a.where);
    to.text(a.network);
  }
}

std::vector<node_address> read_addresses(byte_reader& from) {
  const auto count = from.number<std::uint32_t>();
  if (count > max_addresses) throw malformed_message("a node has too many addresses");
  std::vector<node_address> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string where = from.text();
    all.push_back({std::move(where), from.text()});
  }
  return all;
}

std::vector<std::byte> node_addresses::encode() const {
  byte_writer w;
  w.text(network);
  w.text(server);
  write_addresses(w, addresses);
  return std::move(w).bytes();
}

node_addresses node_addresses::of(const card& peer) {
  node_addresses told;
  const std::span<const std::byte> bytes = bytes_for(peer, scheme);
  if (bytes.empty()) return told;
  byte_reader r(bytes, what_of_addresses);
  told.network = r.text();
  told.server = r.text();
  told.addresses = read_addresses(r);
  if (!r.empty()) {
    throw malformed_message(std::string(what_of_addresses) + " are followed by something else");
  }
  return told;
}

std::vector<socket_address> node_addresses::seen_from(const std::string& from) const {
  return addresses_from(from, addresses);
}

std::vector<socket_address> node_addresses::to_dial_from(const std::string& from) const {
  std::vector<socket_address> leading = seen_from(from);
  if (network == from) return leading;
  // Remove addresses that lead to this machine. Machines have some numbers in common, for instance
  // the numbers of bridges to containers. A number that the peer has published as valid everywhere
  // may therefore belong to this machine, too.
  std::erase_if(leading, [&](const socket_address& a) {
    const bool is_of_network = std::ranges::any_of(addresses, [&](const node_address& told) {
      return told.network == from && told.where == a.text();
    });
    return !is_of_network && is_own(a);
  });
  return leading;
}

std::vector<socket_address> addresses_from(const std::string& network,
                                           std::span<const node_address> addresses) {
  std::vector<socket_address> leading;
  for (const node_address& a : addresses) {
    if (!a.network.empty() && a.network != network) continue;
    const socket_address where = numeric_address(a.where, what_of_addresses);
    if (std::ranges::find(leading, where) == leading.end()) leading.push_back(where);
  }
  put_nearest_first(leading);
  return leading;
}

} // namespace farcall::tcp
