// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace farcall::tcp {
namespace {

using interface_list = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

interface_list interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw_system_error("asking for this machine's addresses", errno);
  return {first, &::freeifaddrs};
}

/// Returns the bytes of an IP address in network order; none if the address is no IP address.
std::pair<const unsigned char*, std::size_t> bytes_of(const sockaddr* a) noexcept {
  if (a != nullptr && a->sa_family == AF_INET) {
    return {
        reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr),
        sizeof(in_addr)};
  }
  if (a != nullptr && a->sa_family == AF_INET6) {
    return {reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr.s6_addr, sizeof(in6_addr)};
  }
  return {nullptr, 0};
}

bool is_in_network(const socket_address& a, const ifaddrs& of) noexcept {
  if (of.ifa_addr == nullptr || of.ifa_addr->sa_family != a.family()) return false;
  const auto [own, size] = bytes_of(of.ifa_addr);
  const unsigned char* const mask = bytes_of(of.ifa_netmask).first;
  const unsigned char* const other = bytes_of(a.data()).first;
  if (size == 0 || mask == nullptr || other == nullptr) return false;
  for (std::size_t i = 0; i < size; ++i) {
    if ((own[i] & mask[i]) != (other[i] & mask[i])) return false;
  }
  return true;
}

} // namespace

std::vector<unique_fd> listen_everywhere() { return listen_on({"::", 0}); }

std::vector<socket_address> interface_addresses(std::uint16_t port) {
  std::vector<socket_address> beyond;
  std::vector<socket_address> loopback;
  const interface_list all = interfaces();
  for (const ifaddrs* i = all.get(); i != nullptr; i = i->ifa_next) {
    if ((i->ifa_flags & IFF_UP) == 0 || bytes_of(i->ifa_addr).second == 0) continue;
    socket_address a(i->ifa_addr, i->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in)
                                                                    : sizeof(sockaddr_in6));
    if (a.is_of_link()) continue;
    a.set_port(port);
    std::vector<socket_address>& to = a.is_loopback() ? loopback : beyond;
    if (std::find(to.begin(), to.end(), a) == to.end()) to.push_back(a);
  }
  if (beyond.empty() && loopback.empty()) throw error("this machine has no address of its own");
  return beyond.empty() ? loopback : beyond;
}

std::vector<socket_address> reachable_addresses(const std::vector<address>& listening) {
  std::vector<socket_address> all;
  const auto add = [&all](const socket_address& a) {
    if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
  };
  for (const address& l : listening) {
    const socket_address where = numeric_address(l.text(), "where a server listens");
    if (!where.is_any()) {
      add(where);
      continue;
    }
    for (const socket_address& a : interface_addresses(l.port)) {
      if (a.family() == where.family()) add(a);
    }
  }
  return all;
}

bool is_own(const socket_address& a) {
  const auto [wanted, size] = bytes_of(a.data());
  const interface_list all = interfaces();
  for (const ifaddrs* i = all.get(); i != nullptr; i = i->ifa_next) {
    const auto [own, own_size] = bytes_of(i->ifa_addr);
    if (size != 0 && own_size == size && std::memcmp(own, wanted, size) == 0) return true;
  }
  return false;
}

void put_nearest_first(std::vector<socket_address>& addresses) {
  const interface_list all = interfaces();
  const auto is_near = [&all](const socket_address& a) {
    if (a.family() == AF_UNIX) return true;
    for (const ifaddrs* i = all.get(); i != nullptr; i = i->ifa_next) {
      if ((i->ifa_flags & IFF_UP) != 0 && is_in_network(a, *i)) return true;
    }
    return false;
  };
  std::vector<socket_address> sorted;
  std::vector<socket_address> far;
  for (const socket_address& a : addresses)
    (is_near(a) ? sorted : far).push_back(a);
  sorted.insert(sorted.end(), far.begin(), far.end());
  addresses = std::move(sorted);
}

} // namespace farcall::tcp
