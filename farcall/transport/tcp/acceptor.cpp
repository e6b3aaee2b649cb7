// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cerrno>
#include <optional>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// Limit of the connections that a listener's event handler accepts in one call, so that a flood
/// does not starve the loop's other events.
constexpr int accept_batch = 32;
/// Pause after a failed accept() before the listener is used again. The usual reason is that no
/// descriptor is left (EMFILE, ENFILE).
constexpr std::chrono::milliseconds out_of_descriptors{200};

} // namespace

void reply(int socket, admission word) noexcept {
  admission_message m;
  m.word = word;
  // Do not wait for space, because the send buffer of a new socket is empty and has space for this
  // message.
  ::send(socket, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

acceptor::acceptor(event_loop& loop, std::vector<unique_fd> listeners,
                   std::chrono::milliseconds handshake_timeout)
    : loop_(&loop), listeners_(std::move(listeners)), handshake_timeout_(handshake_timeout) {
  for (unique_fd& l : listeners_) {
    l.close_on_fork();
    addresses_.push_back(local_address(l.get()));
    // Also list the IPv4 address of an IPv6 socket that another process has made without
    // IPV6_V6ONLY, because such a socket also accepts IPv4 connections.
    if (addresses_.back().host == "::" && takes_ipv4_too(l.get()))
      addresses_.push_back({"0.0.0.0", addresses_.back().port});
  }
}

void acceptor::start(taker takes, refusal_handler refused) {
  takes_ = std::move(takes);
  refused_ = std::move(refused);
  for (const unique_fd& l : listeners_) {
    const int fd = l.get();
    loop_->add(fd, EPOLLIN, std::make_shared<function_handler>([weak = weak_from_this(), fd] {
                 if (const auto self = weak.lock()) self->let_in(fd);
               }));
  }
}

void acceptor::stop() noexcept {
  for (const unique_fd& l : listeners_)
    loop_->remove(l.get());
  loop_->post([self = shared_from_this()] {
    while (const auto number = self->visitors_.first())
      self->take_out(*number);
    self->takes_ = {};
    self->refused_ = {};
  });
}

void acceptor::refuse(const std::string& from, refusal_cause cause, const std::string& why) {
  if (refused_) {
    refused_(from, cause, why);
  } else {
    refusals_.warning("connection from " + from + " refused: " + why);
  }
}

void acceptor::let_in(int listener) {
  for (int i = 0; i < accept_batch; ++i) {
    std::optional<unique_fd> socket;
    try {
      socket = accept_from(listener);
    } catch (const error& e) {
      refusals_.error(e.what());
      loop_->modify(listener, 0);
      loop_->at(clock::now() + out_of_descriptors, [weak = weak_from_this(), listener] {
        if (const auto self = weak.lock()) self->loop_->modify(listener, EPOLLIN);
      });
      return;
    }
    if (!socket) return;
    add(std::move(*socket));
  }
}

void acceptor::add(unique_fd socket) {
  if (const auto displaced = visitors_.displaced())
    send_away(*displaced, refusal_cause::displaced,
              "it has sent no request yet, and too many other connections wait");
  socket.close_on_fork();
  const int fd = socket.get();
  const std::string from = peer_text(fd);
  const std::uint64_t number = visitors_.add(from, {std::move(socket), from, {}, 0});
  try {
    loop_->add(fd, EPOLLIN, std::make_shared<function_handler>([weak = weak_from_this(), number] {
                 if (const auto self = weak.lock()) self->receive(number);
               }));
    loop_->at(clock::now() + handshake_timeout_, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock())
        self->send_away(number, refusal_cause::timeout,
                        "it sent no request within " +
                            std::to_string(self->handshake_timeout_.count()) + " ms");
    });
  } catch (const std::exception& e) {
    refusals_.error(e.what());
    take_out(number);
  }
}

void acceptor::send_away(std::uint64_t number, refusal_cause cause, const std::string& why) {
  if (const auto gone = take_out(number)) refuse(gone->from, cause, why);
}

std::optional<acceptor::visitor> acceptor::take_out(std::uint64_t number) {
  std::optional<visitor> gone = visitors_.take(number);
  if (gone) loop_->remove(gone->socket.get());
  return gone;
}

void acceptor::receive(std::uint64_t number) {
  visitor* const there = visitors_.find(number);
  if (there == nullptr) return;
  visitor& v = *there;
  // Read the preamble only: the bytes that follow are for the connection's next reader.
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
  const ssize_t got = ::recv(v.socket.get(), reinterpret_cast<std::byte*>(&v.first) + v.have,
                             sizeof v.first - v.have, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    send_away(number, refusal_cause::ended, "it ended before it sent a request");
    return;
  }
  v.have += static_cast<std::size_t>(got);
  if (v.have < deciding_bytes(v.first, v.have)) return;
  if (v.first.magic == preamble_magic && v.first.version != connection_version) {
    reply(v.socket.get(), admission::other_version);
  }
  if (const std::string flaw = flaw_of(v.first); !flaw.empty()) {
    send_away(number, refusal_cause::protocol, flaw);
    return;
  }
  std::optional<visitor> gone = take_out(number);
  if (!takes_) return;
  try {
    takes_(std::move(gone->socket), gone->first, gone->from);
  } catch (const connection_refused& e) {
    refuse(gone->from, e.cause(), e.what());
  } catch (const std::exception& e) {
    refuse(gone->from, refusal_cause::request, e.what());
  }
}

} // namespace farcall::tcp
