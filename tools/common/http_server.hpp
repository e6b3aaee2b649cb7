// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/address.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Reply of a page.
struct http_reply {
  int status = 200;
  std::string text;
  std::string type = "text/plain; charset=utf-8";
};

/// Serves a few pages by GET and HEAD, for monitoring programs. There is no authentication. If the
/// server listens on loopback only, it refuses requests whose Host field names another host. A web
/// page in a browser could make such requests (DNS rebinding).
///
/// One thread serves all clients, so that many or slow clients cost no threads and only a few
/// descriptors. A client's connection lasts two seconds at most, and a request may have 8 KiB. At
/// most 32 clients are connected; a further one replaces the oldest.
class http_server {
 public:
  /// Type of a function that returns a page. It is called on the server's thread, one call at a
  /// time.
  using page = std::function<http_reply()>;
  /// For each page its path, such as "/metrics", and the function that returns the page.
  using pages = std::map<std::string, page, std::less<>>;

  /// Listens at `where`. If its host has several addresses, listens on all of them. Throws error
  /// that names the address.
  http_server(const tcp::address& where, pages what);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Waits for the function of a page if one is running, and closes all connections.
  ~http_server();

  /// Returns the addresses on which the server listens.
  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// True for "localhost", for "::1", and for all addresses that begin with "127.".
[[nodiscard]] bool is_loopback_name(std::string_view host);

} // namespace farcall::tool
