// SPDX-License-Identifier: Apache-2.0
#include "http_server.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t max_clients = 32;
constexpr std::size_t max_request = 8192;
constexpr std::chrono::seconds client_time{2};
/// Pause before the next accept(), after a client could not be accepted because the system had no
/// descriptor left.
constexpr std::chrono::milliseconds no_descriptor_pause{200};

std::string_view status_text(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 400:
    return "Bad Request";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 431:
    return "Request Header Fields Too Large";
  case 503:
    return "Service Unavailable";
  default:
    return "Internal Server Error";
  }
}

/// The parts of an HTTP request that the server uses.
struct http_request {
  std::string_view method;
  std::string_view path;                ///< without "?" and the query
  std::optional<std::string_view> host; ///< value of the request's Host field
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// True if both texts are the same name, in which letters of either case are equal (RFC 9110, 4.2.3
/// and 5.1). `wanted` must be in lower case.
bool is_name(std::string_view name, std::string_view wanted) {
  return std::ranges::equal(name, wanted, [](char a, char b) { return (a | 0x20) == b; });
}

/// Parses a request's first line, such as "GET /path HTTP/1.1", and its fields. Returns nothing if
/// the request is invalid. Requests with several Host fields are invalid, and so are requests of
/// HTTP/1.1 without a Host field (RFC 9112, 3.2), and spaces in a field's name (5.1).
std::optional<http_request> parse_head(std::string_view head) {
  constexpr std::string_view line_end = "\r\n";
  const std::string_view first = head.substr(0, head.find(line_end));
  const auto one = first.find(' ');
  const auto two = first.rfind(' ');
  if (one == std::string_view::npos || one == two) return std::nullopt;
  if (!first.substr(two + 1).starts_with("HTTP/1.")) return std::nullopt;
  http_request request;
  request.method = first.substr(0, one);
  request.path = first.substr(one + 1, two - one - 1);
  request.path = request.path.substr(0, request.path.find('?'));
  if (!request.path.starts_with('/')) return std::nullopt;
  for (auto at = head.find(line_end); at != std::string_view::npos;) {
    const auto begin = at + line_end.size();
    at = head.find(line_end, begin);
    const std::string_view line = head.substr(begin, at - begin);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    if (name.find_first_of(" \t") != std::string_view::npos) return std::nullopt;
    if (!is_name(name, "host")) continue;
    if (request.host) return std::nullopt;
    request.host = trimmed(line.substr(colon + 1));
  }
  // RFC 9112, 3.2.
  if (first.ends_with(" HTTP/1.1") && !request.host) return std::nullopt;
  return request;
}

/// True if the Host field of a request is empty or names a loopback host, such as "localhost:9464"
/// or "[::1]:9464". Guards against DNS rebinding, in which the name of a web page resolves to this
/// machine. The browser then sends the page's name as the Host field, and the request is refused.
bool asks_for_loopback(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  return host.empty() || is_loopback_name(host);
}

struct http_client {
  unique_fd socket;
  time_point deadline;
  std::string asked;
  std::string reply; ///< part of the reply that has not been sent yet
  bool has_reply = false;
};

} // namespace

bool is_loopback_name(std::string_view host) {
  return is_name(host, "localhost") || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

class http_server::impl {
 public:
  impl(const tcp::address& where, pages what)
      : pages_(std::move(what)), listeners_(tcp::listen_on(where)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw_system_error("serving HTTP (descriptor limit?)", errno);
    for (const unique_fd& l : listeners_) {
      addresses_.push_back(tcp::local_address(l.get()));
      is_on_loopback_ = is_on_loopback_ && is_loopback_name(addresses_.back().host);
    }
    thread_ = library_thread("farcall-tool", [this] { run(); });
  }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;
  ~impl() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept { return addresses_; }

 private:
  void run() noexcept {
    try {
      while (serve_once()) {
      }
    } catch (const std::exception& e) {
      log::error(fmt::format("the HTTP server has stopped: {}", e.what()));
    }
  }

  /// Waits for an event and handles it. Returns false if the server must end.
  bool serve_once() {
    std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
    time_point wake_up = no_deadline;
    const bool accepts = clock::now() >= pause_until_;
    if (!accepts) wake_up = pause_until_;
    for (const unique_fd& l : listeners_)
      waiting.push_back({accepts ? l.get() : -1, POLLIN, 0});
    for (const http_client& c : clients_) {
      waiting.push_back(
          {c.socket.get(), static_cast<short>(c.reply.empty() ? POLLIN : POLLOUT), 0});
      wake_up = std::min(wake_up, c.deadline);
    }
    if (::poll(waiting.data(), waiting.size(), poll_timeout(wake_up)) < 0 && errno != EINTR)
      throw_system_error("waiting for requests", errno);
    if (waiting[0].revents != 0) return false;
    std::size_t at = 1 + listeners_.size();
    for (auto c = clients_.begin(); c != clients_.end();) {
      const bool is_ready = waiting[at++].revents != 0;
      const bool stays = (!is_ready || serve(*c)) && clock::now() < c->deadline;
      c = stays ? std::next(c) : clients_.erase(c);
    }
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (waiting[1 + i].revents != 0) let_in(listeners_[i].get());
    }
    return true;
  }

  void let_in(int listener) {
    try {
      // Accept at most max_clients clients at a time, so that waiting clients get their replies in
      // between.
      for (std::size_t n = 0; n < max_clients; ++n) {
        std::optional<unique_fd> socket = tcp::accept_from(listener);
        if (!socket) return;
        if (clients_.size() == max_clients) clients_.pop_front();
        clients_.push_back({std::move(*socket), clock::now() + client_time, "", ""});
      }
    } catch (const error& e) {
      log::error(e.what());
      pause_until_ = clock::now() + no_descriptor_pause;
    }
  }

  /// Receives from a client, or sends to it. Returns false if the connection can be closed.
  bool serve(http_client& c) {
    if (!c.reply.empty()) return send_rest(c);
    std::array<char, 4096> piece;
    const ssize_t got = ::recv(c.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return false;
    // After the reply, discard what the client sends until it closes the connection. If the server
    // closed a socket with unread bytes, the system would reset the connection, and the client
    // could lose the reply.
    if (c.has_reply) return true;
    c.asked.append(piece.data(), static_cast<std::size_t>(got));
    const auto end = c.asked.find("\r\n\r\n");
    if (end == std::string::npos && c.asked.size() < max_request) return true;
    c.reply = end > max_request ? text_of({431, "that is too long\n"}, false)
                                : reply_to(std::string_view(c.asked).substr(0, end));
    c.has_reply = true;
    return send_rest(c);
  }

  static bool send_rest(http_client& c) {
    const ssize_t sent =
        ::send(c.socket.get(), c.reply.data(), c.reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    c.reply.erase(0, static_cast<std::size_t>(sent));
    if (c.reply.empty()) ::shutdown(c.socket.get(), SHUT_WR);
    return true;
  }

  [[nodiscard]] std::string reply_to(std::string_view head) const {
    const std::optional<http_request> request = parse_head(head);
    if (!request) return text_of({400, "that is no request of HTTP/1\n"}, false);
    const bool is_head = request->method == "HEAD";
    if (!is_head && request->method != "GET")
      return text_of({405, "only GET and HEAD are understood\n"}, false);
    if (is_on_loopback_ && !asks_for_loopback(request->host.value_or("")))
      return text_of({403, "ask for localhost\n"}, is_head);
    const auto at = pages_.find(request->path);
    if (at == pages_.end()) return text_of({404, "there is no such page\n"}, is_head);
    try {
      return text_of(at->second(), is_head);
    } catch (const std::exception& e) {
      return text_of({500, fmt::format("{}\n", e.what())}, is_head);
    }
  }

  static std::string text_of(const http_reply& reply, bool is_head) {
    return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}"
                       "Connection: close\r\n\r\n{}",
                       reply.status, status_text(reply.status), reply.type, reply.text.size(),
                       reply.status == 405 ? "Allow: GET, HEAD\r\n" : "",
                       is_head ? "" : reply.text);
  }

  pages pages_;
  std::vector<unique_fd> listeners_;
  std::vector<tcp::address> addresses_;
  bool is_on_loopback_ = true;
  unique_fd wake_;
  std::list<http_client> clients_; ///< oldest client first
  time_point pause_until_{};
  /// Declared last, so that it is destroyed and the thread has ended before the members that the
  /// thread uses are destroyed.
  library_thread thread_;
};

http_server::http_server(const tcp::address& where, pages what)
    : impl_(std::make_unique<impl>(where, std::move(what))) {}

http_server::~http_server() = default;

const std::vector<tcp::address>& http_server::addresses() const noexcept {
  return impl_->addresses();
}

} // namespace farcall::tool
