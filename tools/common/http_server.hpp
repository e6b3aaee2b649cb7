#pragma once

#include <farcall/transport/tcp/address.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// What is sent for a page.
struct http_reply {
  int status = 200;
  std::string text;
  std::string type = "text/plain; charset=utf-8";
};

/// Replies to GET and HEAD for a few pages, to programs that look after others. Nobody is asked who
/// they are. Where it listens on loopback only, a page of a browser that has another name for this
/// machine is refused.
///
/// One thread serves all clients, so that those who are slow, or many, cost neither threads nor
/// more than a few descriptors: a client has two seconds for everything and 8 KiB for what it asks,
/// and where 32 are there, the one that came first goes for another.
class http_server {
 public:
  /// Called on the server's thread, one call at a time.
  using page = std::function<http_reply()>;
  using pages = std::map<std::string, page, std::less<>>; ///< by path, as "/metrics"

  /// Listens on all addresses of the host from here on. Throws error that names the address.
  http_server(const tcp::address& where, pages what);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Waits for a page that is being made, and cuts off all clients.
  ~http_server();

  /// Where it listens.
  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// "127.0.0.1", "::1" and the like, and "localhost".
[[nodiscard]] bool is_loopback_name(std::string_view host);

} // namespace farcall::tool
