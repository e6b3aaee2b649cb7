// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/admission_request.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// After one address of a server has refused, the server's other addresses get this time to reply.
/// The time begins again whenever one of them connects, replies or fails. It is longer than one
/// second, because TCP repeats a lost SYN after one second.
constexpr std::chrono::milliseconds time_for_others{2'000};
constexpr const char* silence_text = "it takes connections and does not reply";

} // namespace

bool admission_request::advance(time_point now) {
  const std::size_t candidates = candidates_.size();
  const std::size_t attempts = attempts_.sockets().size();
  take_connected();
  if (receive_replies()) return true;
  (void)attempts_.start_due(now);
  const bool has_changed =
      candidates != candidates_.size() || attempts != attempts_.sockets().size();
  if (!is_refused_ || attempts_.next_start() != no_deadline) {
    silent_until_ = no_deadline;
  } else if (has_changed || silent_until_ == no_deadline) {
    silent_until_ = now + time_for_others;
  }
  if (now >= silent_until_) give_up_silent();
  if (now < silent_until_ && !attempts_.have_failed()) return false;
  // If the server has only one address, the reason why that address failed is the whole error text,
  // without the address in front.
  if (attempts_.addresses() == 1 && !refusal_.empty()) throw error(refusal_);
  throw error(failure_text());
}

void admission_request::watch(std::vector<pollfd>& all) const {
  for (const candidate& c : candidates_)
    all.push_back({c.socket.get(), POLLIN, 0});
  for (const int socket : attempts_.sockets())
    all.push_back({socket, POLLOUT, 0});
}

std::string admission_request::failure_text() const {
  return "cannot connect to " + name_ + " (" + attempts_.failures() + ")";
}

void admission_request::throw_overdue() {
  if (attempts_.addresses() == 1 && !candidates_.empty()) throw error(silence_text);
  give_up_silent();
  throw timeout(failure_text());
}

void admission_request::give_up_silent() {
  for (const candidate& c : std::exchange(candidates_, {}))
    give_up(c, silence_text);
}

void admission_request::take_connected() {
  for (const int socket : attempts_.sockets()) {
    const int reason = connect_attempts::outcome_of(socket);
    if (reason == EINPROGRESS) continue;
    if (reason != 0) {
      attempts_.fail(socket, reason);
      continue;
    }
    candidate c;
    c.socket = attempts_.take(socket);
    c.peer = peer_text(c.socket.get());
    if (first_.is_encrypted == 0 && is_of_another_user(c.socket.get())) {
      give_up(c, another_users_server);
    } else if (::send(c.socket.get(), &first_, sizeof first_, MSG_NOSIGNAL | MSG_DONTWAIT) !=
               static_cast<ssize_t>(sizeof first_)) {
      // An incomplete send means that the connection is broken, because the send buffer of a new
      // socket is empty and has space for the preamble.
      give_up(c, "it has cut the connection: " + reason_text(errno));
    } else {
      candidates_.push_back(std::move(c));
    }
  }
}

bool admission_request::receive_replies() {
  for (auto at = candidates_.begin(); at != candidates_.end();) {
    try {
      if (receive(*at)) {
        socket_ = std::move(at->socket);
        return true;
      }
      ++at;
    } catch (const error& e) {
      give_up(*at, e.what());
      at = candidates_.erase(at);
    }
  }
  return false;
}

bool admission_request::receive(candidate& from) {
  while (from.have < deciding_bytes(from.reply, from.have)) {
    const ssize_t got =
        ::recv(from.socket.get(), reinterpret_cast<std::byte*>(&from.reply) + from.have,
               sizeof from.reply - from.have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0) throw_system_error("it has cut the connection", errno);
    if (got == 0) throw error("it ended the connection; is it a server of farcall?");
    from.have += static_cast<std::size_t>(got);
  }
  const bool is_asked_for_key = from.reply.magic == preamble_magic &&
                                from.reply.version == connection_version &&
                                from.reply.word == admission::needs_key;
  if (is_asked_for_key && first_.is_encrypted != 0) {
    throw error("it says that this program connects without a key, although it has one: a party on "
                "the network path may have changed the messages");
  }
  is_refused_ = true;
  require_admission(from.reply);
  return true;
}

/// Notes that this address has failed. The request goes on, because the server may be reached at
/// another address.
void admission_request::give_up(const candidate& c, const std::string& why) {
  refusal_ = why;
  attempts_.give_up_taken(c.peer + ": " + why);
}

} // namespace farcall::tcp
