#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/admission_request.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <cerrno>

#include <sys/socket.h>

namespace farcall::tcp {

bool admission_request::advance(time_point now) { return (socket_ || connect(now)) && receive(); }

void admission_request::watch(std::vector<pollfd>& all) const {
  if (socket_) {
    all.push_back({socket_.get(), POLLIN, 0});
    return;
  }
  for (const int socket : attempts_.sockets())
    all.push_back({socket, POLLOUT, 0});
}

std::string admission_request::failure_text() const {
  return "cannot connect to " + name_ + " (" + attempts_.failures() + ")";
}

void admission_request::throw_overdue() const {
  if (socket_) throw error("it takes connections and does not answer");
  throw timeout(failure_text());
}

bool admission_request::connect(time_point now) {
  (void)attempts_.start_due(now);
  for (const int socket : attempts_.sockets()) {
    const int reason = connect_attempts::outcome_of(socket);
    if (reason == EINPROGRESS) continue;
    if (reason != 0) {
      attempts_.fail(socket, reason);
      continue;
    }
    socket_ = attempts_.take(socket);
    if (first_.is_encrypted == 0 && is_of_another_user(socket_.get()))
      throw error(another_users_server);
    // A fresh socket has space for it.
    if (::send(socket_.get(), &first_, sizeof first_, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        static_cast<ssize_t>(sizeof first_)) {
      throw_system_error("it has cut the connection", errno);
    }
    return true;
  }
  // The next address at once where all so far have failed.
  if (attempts_.next_start() <= now) return connect(now);
  if (attempts_.have_failed()) throw error(failure_text());
  return false;
}

bool admission_request::receive() {
  while (have_ < sizeof reply_) {
    const ssize_t got = ::recv(socket_.get(), reinterpret_cast<std::byte*>(&reply_) + have_,
                               sizeof reply_ - have_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0) throw_system_error("it has cut the connection", errno);
    if (got == 0) throw error("it ended the connection; is it a server of farcall?");
    have_ += static_cast<std::size_t>(got);
  }
  require_admission(reply_);
  return true;
}

} // namespace farcall::tcp
