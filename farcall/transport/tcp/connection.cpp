// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/node_proof.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// Logs that a node was reached at one address after another of its addresses had not led to it.
/// The rate is limited, because each connection to the node may cause such a message.
void note_detour(const std::string& what) {
  // The object is never destroyed, because a loop's thread may still use it after static objects
  // were destroyed.
  static auto* const detours = new log::limited_log("more addresses led elsewhere");
  detours->warning(what);
}

class dialler final : public event_handler, public std::enable_shared_from_this<dialler> {
 public:
  dialler(event_loop& loop, std::vector<socket_address> where, connection_security security,
          const connect_request& request, std::chrono::milliseconds heartbeat_timeout,
          time_point deadline, dialled done)
      : loop_(&loop), where_(std::move(where)), attempts_(where_), security_(std::move(security)),
        request_(request), heartbeat_timeout_(heartbeat_timeout), deadline_(deadline),
        done_(std::move(done)) {}

  void start() {
    loop_->at(deadline_, [self = shared_from_this()] {
      if (!self->done_) return;
      for (const auto& c : std::exchange(self->candidates_, {}))
        self->give_up(*c, "it takes connections and does not reply");
      self->end(nullptr, self->attempts_.failures());
    });
    go_on();
  }

  void on_event(std::uint32_t /*events*/) noexcept override { go_on(); }

 private:
  /// A connection that was made to one of the addresses. The process at its other end has not
  /// proved yet that it is the node.
  struct candidate {
    node_proof proof;
    std::string peer;
  };

  void go_on() noexcept {
    try {
      if (!done_ || clock::now() < again_at_) return;
      take_connected();
      if (const auto proved = proved_candidate()) {
        if (!not_proved_.empty()) {
          note_detour(node_text(request_.to) + " was reached at " + proved->peer + ", as " +
                      not_proved_);
        }
        loop_->remove(proved->proof.connection().fd());
        request_ = proved->proof.request();
        end(proved->proof.take(), "");
        return;
      }
      for (const int socket : attempts_.start_due(clock::now()))
        loop_->add(socket, EPOLLOUT, shared_from_this());
      if (attempts_.have_failed() && dials_again()) return;
      if (attempts_.have_failed()) {
        const std::string why = attempts_.failures();
        end(nullptr, why.empty() ? "it has no address" : why);
      } else if (const time_point next = attempts_.next_start(); next != no_deadline) {
        loop_->at(next, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->go_on();
        });
      }
    } catch (const std::exception& e) {
      end(nullptr, e.what());
    }
  }

  /// Schedules new attempts at all addresses if the other end has closed a connection because too
  /// many of its connections were unproved. Returns false if there was another reason, the limit of
  /// new attempts is reached, or the deadline is too near.
  [[nodiscard]] bool dials_again() {
    const time_point next = clock::now() + first_gap * (1 << displacements_);
    if (!was_displaced_ || displacements_ == max_displacements || next >= deadline_) return false;
    was_displaced_ = false;
    ++displacements_;
    again_at_ = next;
    attempts_ = connect_attempts(where_);
    loop_->at(next, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->go_on();
    });
    return true;
  }

  void take_connected() {
    for (const int socket : attempts_.sockets()) {
      const int reason = connect_attempts::outcome_of(socket);
      if (reason == EINPROGRESS) continue;
      loop_->remove(socket);
      if (reason != 0) {
        attempts_.fail(socket, reason);
        continue;
      }
      unique_fd connected = attempts_.take(socket);
      const std::string peer = peer_text(connected.get());
      try {
        candidates_.push_back(begin_with(std::move(connected), peer));
      } catch (const connection_displaced& e) {
        was_displaced_ = true;
        note_failure(peer, e.what());
      } catch (const error& e) {
        note_failure(peer, e.what());
      }
    }
  }

  [[nodiscard]] std::unique_ptr<candidate> begin_with(unique_fd socket, const std::string& peer) {
    if (!security_.identity && is_of_another_user(socket.get())) {
      throw error("another user's process listens at that socket");
    }
    preamble first;
    first.kind = request_.kind;
    first.is_encrypted = security_.identity ? 1 : 0;
    first.to = request_.to;
    first.job = security_.credentials->name;
    // An incomplete send means that the connection is broken, because the send buffer of a new
    // socket is empty and has space for the preamble.
    if (::send(socket.get(), &first, sizeof first, MSG_NOSIGNAL) != sizeof first)
      throw_system_error("it has cut the connection", errno);
    set_options(socket.get(), heartbeat_timeout_);
    auto begun = std::make_unique<candidate>(
        candidate{node_proof(security_.identity ? tls_client(std::move(socket), security_.identity,
                                                             {}, node_text(request_.to))
                                                : plain_stream(std::move(socket)),
                             security_.credentials, request_),
                  peer});
    loop_->add(begun->proof.connection().fd(), EPOLLIN, shared_from_this());
    return begun;
  }

  /// Returns the first candidate that has proved its identity, or null if none has done so yet.
  [[nodiscard]] std::unique_ptr<candidate> proved_candidate() {
    for (auto at = candidates_.begin(); at != candidates_.end();) {
      node_proof& proof = (*at)->proof;
      try {
        if (proof.advance()) {
          std::unique_ptr<candidate> proved = std::move(*at);
          candidates_.erase(at);
          return proved;
        }
        const bool writes = proof.connection().read_wants_write();
        loop_->modify(proof.connection().fd(), writes ? EPOLLIN | EPOLLOUT : EPOLLIN);
        ++at;
      } catch (const connection_displaced& e) {
        was_displaced_ = true;
        give_up(**at, e.what());
        at = candidates_.erase(at);
      } catch (const error& e) {
        give_up(**at, e.what());
        at = candidates_.erase(at);
      }
    }
    return nullptr;
  }

  void give_up(candidate& c, const std::string& why) {
    loop_->remove(c.proof.connection().fd());
    note_failure(c.peer, why);
  }

  void note_failure(const std::string& peer, const std::string& why) {
    not_proved_ = peer + ": " + why;
    attempts_.give_up_taken(not_proved_);
  }

  void end(std::unique_ptr<stream> connection, const std::string& why) noexcept {
    for (const int socket : attempts_.sockets())
      loop_->remove(socket);
    attempts_ = connect_attempts({});
    for (const auto& c : std::exchange(candidates_, {}))
      loop_->remove(c->proof.connection().fd());
    const dialled done = std::exchange(done_, {});
    if (!done) return;
    try {
      done(std::move(connection), request_, why);
    } catch (const std::exception& e) {
      static auto& lines = *new log::limited_log("more connections were lost");
      lines.error(std::string("a connection that was made is lost: ") + e.what());
    }
  }

  /// Time before the first of several new attempts. The wait doubles with each further attempt.
  static constexpr std::chrono::milliseconds first_gap{20};
  static constexpr int max_displacements = 6;

  event_loop* loop_;
  std::vector<socket_address> where_;
  connect_attempts attempts_;
  connection_security security_;
  connect_request request_;
  std::chrono::milliseconds heartbeat_timeout_;
  time_point deadline_;
  dialled done_;
  std::vector<std::unique_ptr<candidate>> candidates_;
  bool was_displaced_ = false; ///< since the last restart
  int displacements_ = 0;
  time_point again_at_{};
  std::string not_proved_; ///< last address at which no process has proved its identity, and the
                           ///< reason
};

class arrival final : public event_handler, public std::enable_shared_from_this<arrival> {
 public:
  arrival(event_loop& loop, std::unique_ptr<stream> connection, connection_security security,
          node_id self, arrived done)
      : loop_(&loop), connection_(std::move(connection)), security_(std::move(security)),
        self_(self), done_(std::move(done)) {}

  void start(time_point deadline) noexcept {
    const std::lock_guard guard(mutex_);
    if (!done_) return;
    try {
      loop_->add(connection_->fd(), EPOLLIN, shared_from_this());
      loop_->at(deadline, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self) self->refuse("it sent no request within the heartbeat timeout");
      });
    } catch (const std::exception& e) {
      end(nullptr, e.what());
    }
  }

  /// Refuses the connection with this reason. Any thread may call this. The descriptor is closed on
  /// return.
  void refuse(const std::string& why) noexcept {
    const std::lock_guard guard(mutex_);
    if (done_) end(nullptr, why);
  }

  void on_event(std::uint32_t /*events*/) noexcept override {
    const std::lock_guard guard(mutex_);
    if (!done_) return;
    try {
      if (!security_.identity && !has_replied_) {
        if (!read_into(challenge_.opener)) return;
        reply();
      }
      if (!read_into(request_)) return;
      check();
      loop_->remove(connection_->fd());
      end(std::move(connection_), "");
    } catch (const std::exception& e) {
      end(nullptr, e.what());
    }
  }

 private:
  /// Reads an object from the connection. Returns false if some of its bytes have not arrived, or
  /// if the connection has ended.
  template <class T>
  bool read_into(T& to) {
    while (have_ < sizeof to) {
      const iovec rest{reinterpret_cast<std::byte*>(&to) + have_, sizeof to - have_};
      const io_result got = connection_->read({&rest, 1});
      if (got.status == io_status::would_block) {
        loop_->modify(connection_->fd(),
                      connection_->read_wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return false;
      }
      if (got.status != io_status::done) {
        const bool has_left = got.status == io_status::closed || connection_->was_broken_off();
        end(nullptr, has_left ? "" : connection_->failure());
        return false;
      }
      have_ += got.bytes;
    }
    have_ = 0;
    return true;
  }

  void reply() {
    const acceptor_reply ours = reply_to(challenge_.opener, self_, *security_.credentials);
    challenge_.acceptor = ours.fresh;
    const iovec all{const_cast<acceptor_reply*>(&ours), sizeof ours};
    // An incomplete write means that the connection is broken, because the send buffer of a new
    // socket is empty and has space for the reply.
    const io_result put = connection_->write({&all, 1});
    if (put.bytes != sizeof ours) throw error("it does not take what it is told");
    has_replied_ = true;
  }

  void check() const {
    if (!is_signed(request_, challenge_, *security_.credentials))
      throw error("it does not know the job's key");
    if (request_.to != self_)
      throw error(
          "it is for another node: a party on the network path may have redirected the connection");
  }

  void end(std::unique_ptr<stream> connection, const std::string& why) noexcept {
    if (connection_) loop_->remove(connection_->fd());
    if (const arrived done = std::exchange(done_, {})) {
      try {
        done(std::move(connection), request_, why);
      } catch (const std::exception& e) {
        static auto& lines = *new log::limited_log("more connections were lost");
        lines.error(std::string("a connection that has come is lost: ") + e.what());
      }
    }
    connection_.reset();
  }

  std::mutex mutex_;
  event_loop* loop_;
  std::unique_ptr<stream> connection_;
  connection_security security_;
  node_id self_;
  challenge challenge_;
  bool has_replied_ = false;
  connect_request request_;
  std::size_t have_ = 0; ///< number of bytes received of the current message
  arrived done_;
};

} // namespace

void dial(event_loop& loop, std::vector<socket_address> where, connection_security security,
          const connect_request& request, std::chrono::milliseconds heartbeat_timeout,
          time_point deadline, dialled done) {
  auto made = std::make_shared<dialler>(loop, std::move(where), std::move(security), request,
                                        heartbeat_timeout, deadline, std::move(done));
  loop.post([made] { made->start(); });
}

refusal receive_connect_request(event_loop& loop, unique_fd socket, connection_security security,
                                node_id self, time_point deadline, arrived done) {
  auto connection = security.identity
                        ? tls_server(std::move(socket), security.identity, node_text(self))
                        : plain_stream(std::move(socket));
  return receive_connect_request(loop, std::move(connection), std::move(security), self, deadline,
                                 std::move(done));
}

refusal receive_connect_request(event_loop& loop, std::unique_ptr<stream> connection,
                                connection_security security, node_id self, time_point deadline,
                                arrived done) {
  auto made = std::make_shared<arrival>(loop, std::move(connection), std::move(security), self,
                                        std::move(done));
  loop.post([made, deadline] { made->start(deadline); });
  return [weak = std::weak_ptr(made)](const std::string& why) {
    if (const auto late = weak.lock()) late->refuse(why);
  };
}

} // namespace farcall::tcp
