// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>

namespace farcall::tcp {
namespace {

constexpr const char* loopback = "loopback";
constexpr std::size_t site_bytes = 6;

std::string source_of(in_addr four) {
  constexpr std::uint32_t network_of_loopback = 127;
  if (ntohl(four.s_addr) >> 24 == network_of_loopback) return loopback;
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &four, text.data(), text.size());
}

} // namespace

std::string source_of(const std::string& peer) {
  // "1.2.3.4:5", or "[1:2::3%eth0]:5".
  std::string host = peer.substr(0, peer.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  host = host.substr(0, host.find('%'));
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return source_of(four);
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return host;
  if (IN6_IS_ADDR_LOOPBACK(&six)) return loopback;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    std::memcpy(&four, &six.s6_addr[12], sizeof four);
    return source_of(four);
  }
  std::memset(&six.s6_addr[site_bytes], 0, sizeof six.s6_addr - site_bytes);
  std::array<char, INET6_ADDRSTRLEN> text{};
  return std::string(::inet_ntop(AF_INET6, &six, text.data(), text.size())) + "/48";
}

std::size_t unproved_limit(std::size_t most) noexcept {
  constexpr rlim_t part = 8;
  constexpr rlim_t least = 8;
  rlimit limit{};
  const rlim_t all = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  return std::clamp<rlim_t>(all / part, least, most);
}

connection_sources::connection_sources(std::size_t most)
    : max_(most), random_(std::random_device()()) {}

void connection_sources::add(std::uint64_t connection, const std::string& source) {
  by_source_[source].push_back(connection);
  ++size_;
}

void connection_sources::remove(std::uint64_t connection, const std::string& source) noexcept {
  const auto at = by_source_.find(source);
  if (at == by_source_.end()) return;
  size_ -= std::erase(at->second, connection);
  if (at->second.empty()) by_source_.erase(at);
}

std::optional<std::uint64_t> connection_sources::displaced() {
  if (size_ < max_) return std::nullopt;
  // If several sources have the largest number of connections, choose among the connections of all
  // these sources, so that no source is safe because of its address.
  std::size_t most = 0;
  std::vector<std::uint64_t> all;
  for (const auto& [source, connections] : by_source_) {
    if (connections.size() < most) continue;
    if (connections.size() > most) all.clear();
    most = connections.size();
    all.insert(all.end(), connections.begin(), connections.end());
  }
  return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
}

} // namespace farcall::tcp
