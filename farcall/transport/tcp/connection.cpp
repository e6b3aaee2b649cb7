#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

class dialler final : public event_handler, public std::enable_shared_from_this<dialler> {
 public:
  dialler(reactor& loop, std::vector<socket_address> where, const preamble& first,
          std::shared_ptr<const tls_identity> identity, std::chrono::milliseconds heartbeat_timeout,
          dialled done)
      : loop_(&loop), attempts_(std::move(where)), first_(first), identity_(std::move(identity)),
        heartbeat_timeout_(heartbeat_timeout), done_(std::move(done)) {}

  void start() {
    loop_->at(clock::now() + heartbeat_timeout_, [self = shared_from_this()] {
      if (self->done_) self->end(nullptr, self->attempts_.failures());
    });
    try_next();
  }

  /// One of the sockets is decided.
  void on_event(std::uint32_t /*events*/) noexcept override {
    try {
      for (const int socket : attempts_.sockets()) {
        const int reason = connect_attempts::outcome_of(socket);
        if (reason == EINPROGRESS) continue;
        loop_->remove(socket);
        if (reason == 0) {
          begin_with(attempts_.take(socket));
          return;
        }
        attempts_.fail(socket, reason);
      }
      try_next();
    } catch (const std::exception& e) {
      end(nullptr, e.what());
    }
  }

 private:
  void begin_with(unique_fd socket) {
    // A fresh socket has space for this.
    if (::send(socket.get(), &first_, sizeof first_, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(sizeof first_)) {
      throw_system_error("it has cut the connection", errno);
    }
    set_options(socket.get(), heartbeat_timeout_);
    end(identity_ ? tls_client(std::move(socket), identity_) : plain_stream(std::move(socket)), "");
  }

  void try_next() {
    for (const int socket : attempts_.start_due(clock::now()))
      loop_->add(socket, EPOLLOUT, shared_from_this());
    if (attempts_.have_failed()) {
      const std::string why = attempts_.failures();
      end(nullptr, why.empty() ? "it has no address" : why);
    } else if (const time_point next = attempts_.next_start(); next != no_deadline) {
      loop_->at(next, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->done_) self->on_event(0);
      });
    }
  }

  void end(std::unique_ptr<stream> connection, const std::string& why) noexcept {
    for (const int socket : attempts_.sockets())
      loop_->remove(socket);
    attempts_ = connect_attempts({});
    if (const dialled done = std::exchange(done_, {})) done(std::move(connection), why);
  }

  reactor* loop_;
  connect_attempts attempts_;
  preamble first_;
  std::shared_ptr<const tls_identity> identity_;
  std::chrono::milliseconds heartbeat_timeout_;
  dialled done_;
};

class arrival final : public event_handler, public std::enable_shared_from_this<arrival> {
 public:
  arrival(reactor& loop, std::unique_ptr<stream> connection, arrived done)
      : loop_(&loop), connection_(std::move(connection)), done_(std::move(done)) {}

  void start(time_point deadline) {
    loop_->add(connection_->fd(), EPOLLIN, shared_from_this());
    loop_->at(deadline, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->refuse("it did not say in time what it wants");
    });
  }

  void refuse(const std::string& why) noexcept {
    if (done_) end(nullptr, why);
  }

  void on_event(std::uint32_t /*events*/) noexcept override {
    while (have_ < sizeof connect_request_) {
      const iovec rest{reinterpret_cast<std::byte*>(&connect_request_) + have_,
                       sizeof connect_request_ - have_};
      const io_result got = connection_->read({&rest, 1});
      if (got.status == io_status::would_block) {
        loop_->modify(connection_->fd(),
                      connection_->read_wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return;
      }
      if (got.status != io_status::done) {
        const bool has_left = got.status == io_status::closed || connection_->was_broken_off();
        end(nullptr, has_left ? "" : connection_->failure());
        return;
      }
      have_ += got.bytes;
    }
    loop_->remove(connection_->fd());
    end(std::move(connection_), "");
  }

 private:
  void end(std::unique_ptr<stream> connection, const std::string& why) noexcept {
    if (connection_) loop_->remove(connection_->fd());
    if (const arrived done = std::exchange(done_, {}))
      done(std::move(connection), connect_request_, why);
    connection_.reset();
  }

  reactor* loop_;
  std::unique_ptr<stream> connection_;
  connect_request connect_request_;
  std::size_t have_ = 0;
  arrived done_;
};

} // namespace

void dial(reactor& loop, std::vector<socket_address> where, const preamble& first,
          std::shared_ptr<const tls_identity> identity, std::chrono::milliseconds heartbeat_timeout,
          dialled done) {
  auto made = std::make_shared<dialler>(loop, std::move(where), first, std::move(identity),
                                        heartbeat_timeout, std::move(done));
  loop.post([made] { made->start(); });
}

refusal receive_connect_request(reactor& loop, unique_fd socket,
                                std::shared_ptr<const tls_identity> identity, time_point deadline,
                                arrived done) {
  auto connection = identity ? tls_server(std::move(socket), std::move(identity))
                             : plain_stream(std::move(socket));
  auto made = std::make_shared<arrival>(loop, std::move(connection), std::move(done));
  loop.post([made, deadline] { made->start(deadline); });
  return [&loop, weak = std::weak_ptr(made)](const std::string& why) {
    loop.post([weak, why] {
      if (const auto late = weak.lock()) late->refuse(why);
    });
  };
}

} // namespace farcall::tcp
