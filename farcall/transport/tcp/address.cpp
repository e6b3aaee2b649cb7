// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace farcall::tcp {
namespace {

[[noreturn]] void refuse(const std::string& what, std::string_view text, const std::string& why) {
  throw setting_error(what + " is \"" + std::string(text) + "\": " + why);
}

/// True if the host is an IPv6 number, with or without a zone ("fe80::1%eth0").
bool is_ipv6_number(const std::string& host) {
  const auto zone = host.find('%');
  if (zone != std::string::npos && zone + 1 == host.size()) return false;
  in6_addr number{};
  return ::inet_pton(AF_INET6, host.substr(0, zone).c_str(), &number) == 1;
}

bool may_stand_in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

/// True if a path may contain the character. Paths occur in lists and in URLs, so that a path must
/// not contain the separators of lists and URLs.
bool may_stand_in_a_path(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte != 0x7f && c != ',' && c != '?' && c != '"' && c != '\'';
}

/// Longest path of a Unix socket that the kernel accepts, without the terminating 0.
constexpr std::size_t max_path = sizeof(sockaddr_un::sun_path) - 1;

address parse_path(std::string_view text, const std::string& what) {
  if (!std::ranges::all_of(text, may_stand_in_a_path)) {
    refuse(what, text, "paths of sockets have no blanks, commas, question marks or quotes");
  }
  if (text.size() > max_path) {
    refuse(what, text,
           "the system takes paths of sockets of up to " + std::to_string(max_path) +
               " characters; choose a shorter one");
  }
  return {std::string(text), 0};
}

addrinfo hints_of(int flags) noexcept {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

const sockaddr_in& as_ipv4(const sockaddr_storage& storage) noexcept {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& as_ipv6(const sockaddr_storage& storage) noexcept {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}
const sockaddr_un& as_unix(const sockaddr_storage& storage) noexcept {
  return reinterpret_cast<const sockaddr_un&>(storage);
}

} // namespace

std::string address::url() const { return (is_path() ? "unix://" : "tcp://") + text(); }

std::string address::text() const {
  if (is_path()) return host;
  const std::string number = ":" + std::to_string(port);
  return host.find(':') == std::string::npos ? host + number : "[" + host + "]" + number;
}

address parse_address(std::string_view text, const std::string& what, bool zero_port_allowed) {
  const std::string forms = "write host:port, or [number]:port for an IPv6 number";
  const auto colon = text.rfind(':');
  address parsed;
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) refuse(what, text, "the ']' is missing; " + forms);
    if (colon != bracket + 1) refuse(what, text, "the port is missing; " + forms);
    parsed.host = text.substr(1, bracket - 1);
    if (!is_ipv6_number(parsed.host)) {
      refuse(what, text, "brackets are for IPv6 numbers such as [::1]; " + forms);
    }
  } else {
    if (colon == std::string_view::npos) refuse(what, text, "the port is missing; " + forms);
    parsed.host = text.substr(0, colon);
    if (parsed.host.find(':') != std::string::npos) {
      refuse(what, text, "an IPv6 number needs brackets; " + forms);
    }
    if (parsed.host.empty()) {
      refuse(what, text, "the host is missing; " + forms + " (0.0.0.0 and [::] stand for all)");
    }
    if (parsed.host.size() > 253 ||
        !std::all_of(parsed.host.begin(), parsed.host.end(), may_stand_in_a_name)) {
      refuse(what, text, "that is no name of a host; " + forms);
    }
  }
  parsed.port = static_cast<std::uint16_t>(
      parse_number(text.substr(colon + 1), "the port in " + what + " \"" + std::string(text) + "\"",
                   zero_port_allowed ? 0 : 1, 65535));
  return parsed;
}

address parse_server_address(std::string_view text, const std::string& what,
                             bool zero_port_allowed) {
  if (text.starts_with('/')) return parse_path(text, what);
  if (text.find('/') != std::string_view::npos) {
    refuse(what, text,
           "write host:port, or the path of a Unix socket from the root on (/run/app.socket), "
           "without tcp:// or unix://");
  }
  return parse_address(text, what, zero_port_allowed);
}

socket_address::socket_address(const sockaddr* data, socklen_t size) noexcept
    : size_(std::min<socklen_t>(size, sizeof storage_)) {
  std::memcpy(&storage_, data, size_);
}

socket_address socket_address::of_path(const std::string& path) {
  if (path.size() > max_path) {
    throw error("the path of a socket is longer than " + std::to_string(max_path) +
                " characters: " + path);
  }
  sockaddr_un named{};
  named.sun_family = AF_UNIX;
  std::memcpy(named.sun_path, path.data(), path.size());
  return {reinterpret_cast<const sockaddr*>(&named), sizeof named};
}

std::uint16_t socket_address::port() const noexcept {
  if (family() == AF_INET) return ntohs(as_ipv4(storage_).sin_port);
  if (family() == AF_INET6) return ntohs(as_ipv6(storage_).sin6_port);
  return 0;
}

void socket_address::set_port(std::uint16_t port) noexcept {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
}

bool socket_address::is_loopback() const noexcept {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET) return ntohl(as_ipv4(storage_).sin_addr.s_addr) >> 24 == 127;
  if (family() != AF_INET6) return false;
  const in6_addr& number = as_ipv6(storage_).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&number) ||
         (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == 127);
}

bool socket_address::is_of_link() const noexcept {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_ipv6(storage_).sin6_addr);
}

bool socket_address::is_any() const noexcept {
  if (family() == AF_INET) return as_ipv4(storage_).sin_addr.s_addr == INADDR_ANY;
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&as_ipv6(storage_).sin6_addr);
}

address socket_address::numeric() const {
  if (family() == AF_UNIX) {
    constexpr std::size_t before = offsetof(sockaddr_un, sun_path);
    if (size_ <= before) return {};
    const char* const path = as_unix(storage_).sun_path;
    return {std::string(path, ::strnlen(path, size_ - before)), 0};
  }
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(data(), size_, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {"unknown", port()};
  }
  return {host.data(), port()};
}

socket_address numeric_address(const std::string& text, const char* what) {
  addrinfo* first = nullptr;
  try {
    const address where = parse_server_address(text, what);
    if (where.is_path()) return socket_address::of_path(where.host);
    const addrinfo hints = hints_of(AI_NUMERICSERV | AI_NUMERICHOST);
    if (::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &first) ==
        0) {
      const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
      return {first->ai_addr, first->ai_addrlen};
    }
  } catch (const setting_error&) {
    // Throw malformed_message in place of setting_error, because the text of setting_error advises
    // the user about a setting. This address comes from another process, so that the user cannot
    // correct it.
  }
  throw malformed_message(std::string(what) + ": one is not in numbers");
}

std::vector<socket_address> resolve(const address& where) {
  if (where.is_path()) return {socket_address::of_path(where.host)};
  const addrinfo hints = hints_of(AI_NUMERICSERV);
  addrinfo* first = nullptr;
  const int status =
      ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &first);
  if (status != 0) {
    const std::string reason =
        status == EAI_SYSTEM ? reason_text(errno) : std::string(::gai_strerror(status));
    throw error("host \"" + where.host + "\" cannot be found: " + reason +
                "; check its spelling, or give its address in numbers");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  std::vector<socket_address> found;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next) {
    const socket_address one(info->ai_addr, info->ai_addrlen);
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  }
  if (found.empty()) throw error("host \"" + where.host + "\" has no address");
  return found;
}

} // namespace farcall::tcp
