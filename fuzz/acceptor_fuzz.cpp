// SPDX-License-Identifier: Apache-2.0

// Several clients connect to a port over sockets and send any preamble, in pieces, with or without
// bytes after it, or nothing. Clients with a valid preamble are admitted, and bytes after it stay
// unread; each other client is refused once, with one printable line, and none is left over.
// Clients of another version get an admission.

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

namespace {

namespace fc = farcall;
namespace tcp = fc::tcp;
using fc::fuzz::require;

/// Returns a listener at an address that the kernel has chosen.
fc::unique_fd listener(sockaddr_un& at, socklen_t& size) {
  fc::unique_fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  require(made.get() >= 0);
  at.sun_family = AF_UNIX;
  require(::bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at.sun_family) == 0);
  require(::listen(made.get(), 64) == 0);
  size = sizeof at;
  require(::getsockname(made.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  return made;
}

/// Created once for all inputs: each input leaves it in its initial state.
class port {
 public:
  static port& one() {
    static port p;
    return p;
  }

  fc::unique_fd connect() const {
    fc::unique_fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    require(::connect(made.get(), reinterpret_cast<const sockaddr*>(&at_), size_) == 0);
    return made;
  }
  void turn(fc::time_point now) { loop_.turn(now); }
  [[nodiscard]] const tcp::acceptor& acceptor() const { return *acceptor_; }

  std::vector<std::pair<fc::unique_fd, tcp::preamble>> taken;
  std::size_t refused = 0;
  bool refuses = false; ///< decision of the callback that admits connections

 private:
  port() {
    std::vector<fc::unique_fd> listeners;
    listeners.push_back(listener(at_, size_));
    acceptor_ = std::make_shared<tcp::acceptor>(loop_, std::move(listeners), std::chrono::hours(1));
    acceptor_->start(
        [this](fc::unique_fd socket, const tcp::preamble& first, const std::string& /*from*/) {
          if (refuses) throw tcp::connection_refused(tcp::refusal_cause::full, "not now");
          taken.emplace_back(std::move(socket), first);
        },
        [this](const std::string& /*from*/, tcp::refusal_cause /*cause*/, const std::string& why) {
          fc::fuzz::require_line(why);
          ++refused;
        });
  }

  fc::event_loop loop_;
  sockaddr_un at_{};
  socklen_t size_ = 0;
  std::shared_ptr<tcp::acceptor> acceptor_;
};

struct visitor {
  fc::unique_fd socket;
  std::vector<std::byte> sent;

  void send(std::span<const std::byte> bytes) {
    if (!socket || bytes.empty()) return;
    // Fails if the acceptor has refused the connection.
    if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
        static_cast<ssize_t>(bytes.size())) {
      sent.insert(sent.end(), bytes.begin(), bytes.end());
    }
  }
};

/// Sends a valid preamble, or one with a changed bit.
void send_preamble(visitor& v, std::size_t number, fc::fuzz::script& from) {
  tcp::preamble first;
  first.kind = static_cast<tcp::connection_kind>(1 + from.byte() % 6);
  first.is_encrypted = from.byte() % 2;
  first.to = static_cast<std::uint32_t>(number);
  std::array<std::byte, sizeof first> bytes;
  std::memcpy(bytes.data(), &first, sizeof first);
  const std::uint8_t change = from.byte();
  if (change < 0x30) bytes[from.byte() % 28] ^= static_cast<std::byte>(1U << change % 8);
  const std::size_t part = change < 0xb0 ? bytes.size() : from.byte() % bytes.size();
  v.send(std::span(bytes).first(part));
  if (change < 0xe0) return;
  port::one().turn(fc::clock::now());
  v.send(std::span(bytes).subspan(part));
}

/// True if the connection is this visitor's, and its unread bytes are exactly the visitor's bytes
/// after the preamble.
bool is_taken_from(const visitor& v, fc::unique_fd& socket, const tcp::preamble& first) {
  if (v.sent.size() < sizeof first || std::memcmp(v.sent.data(), &first, sizeof first) != 0)
    return false;
  std::vector<std::byte> rest(v.sent.size() - sizeof first + 1);
  const ssize_t got = ::recv(socket.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_PEEK);
  const std::size_t come = got < 0 ? 0 : static_cast<std::size_t>(got);
  return come + sizeof first == v.sent.size() &&
         std::memcmp(rest.data(), v.sent.data() + sizeof first, come) == 0;
}

/// Checks the visitor's reply, if there is one: only clients of another version get one, an
/// admission with this release.
void check_reply(const visitor& v) {
  if (!v.socket) return;
  std::array<std::byte, 2 * sizeof(tcp::admission_message)> bytes;
  const ssize_t got = ::recv(v.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) return;
  const tcp::admission_message right{.word = tcp::admission::other_version};
  require(got == sizeof right && std::memcmp(bytes.data(), &right, sizeof right) == 0);
  tcp::preamble first;
  const std::size_t have = std::min(v.sent.size(), sizeof first);
  std::memcpy(&first, v.sent.data(), have);
  require(have >= tcp::deciding_bytes(first, have) && first.magic == tcp::preamble_magic &&
          first.version != tcp::connection_version);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t max_visitors = 8;
  fc::fuzz::script from(data, size);
  port& p = port::one();
  p.refuses = false;
  p.refused = 0;
  const std::uint64_t before = p.acceptor().accepted();
  std::vector<visitor> visitors;
  const auto some_visitor = [&]() -> visitor& {
    if (visitors.empty()) visitors.push_back({p.connect(), {}});
    return visitors[from.byte() % visitors.size()];
  };
  while (!from.is_over()) {
    switch (from.byte() % 8) {
    case 0:
      if (visitors.size() < max_visitors) visitors.push_back({p.connect(), {}});
      break;
    case 1:
      some_visitor().send(from.bytes(from.byte() % 64));
      break;
    case 2:
    case 3: {
      visitor& v = some_visitor();
      send_preamble(v, static_cast<std::size_t>(&v - visitors.data()), from);
      break;
    }
    case 4:
      some_visitor().socket.reset();
      break;
    case 5: {
      const std::uint8_t what = from.byte();
      if (what < 0x10) p.turn(fc::time_point::max());
      if (what >= 0xf0) p.refuses = true;
      break;
    }
    default:
      p.turn(fc::clock::now());
    }
  }
  // Clients in the queue are admitted and read; then their time is over.
  p.turn(fc::clock::now());
  p.turn(fc::time_point::max());
  require(p.acceptor().unproved() == 0);
  require(p.acceptor().accepted() == before + visitors.size());
  require(p.taken.size() + p.refused == visitors.size());
  for (auto& [socket, first] : std::exchange(p.taken, {})) {
    require(tcp::flaw_of(first).empty());
    bool is_found = false;
    for (const visitor& v : visitors)
      is_found = is_found || is_taken_from(v, socket, first);
    require(is_found);
  }
  for (const visitor& v : visitors)
    check_reply(v);
  return 0;
}
