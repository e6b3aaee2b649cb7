#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/server.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall {
namespace {

/// Connections that have not said yet what they want; for another one the oldest has to go, so that
/// a flood costs no memory, and a peer that says at once what it wants is served even then.
constexpr std::size_t most_visitors = 128;
/// Taken at one go, so that a flood does not keep the server from its targets.
constexpr int accept_batch = 32;
/// Pause when the system has no descriptor left.
constexpr std::chrono::milliseconds out_of_descriptors{200};

using target_name = std::pair<tcp::job_name, node_id>;

} // namespace

/// Everything but construction happens on the reactor's thread.
class server::impl : public std::enable_shared_from_this<server::impl> {
 public:
  explicit impl(server_options o) : own_(std::move(o)), identity_(make_identity(own_.access)) {
    check_safety();
    listeners_ = tcp::listen_on(own_.listen);
    for (unique_fd& l : listeners_) {
      l.close_on_fork();
      addresses_.push_back(tcp::local_address(l.get()));
    }
    loop_ = std::make_unique<tcp::reactor>("farcall-serve");
  }

  void start() {
    for (const unique_fd& l : listeners_) {
      const int fd = l.get();
      loop_->add(fd, EPOLLIN, std::make_shared<ready>([weak = weak_from_this(), fd] {
                   if (const auto self = weak.lock()) self->take_visitors(fd);
                 }));
    }
  }

  void stop() {
    for (const unique_fd& l : listeners_)
      loop_->remove(l.get());
    // Nothing runs there afterwards that could use the targets. The reactor itself stays: what runs
    // there until then uses it.
    loop_->stop();
    targets_.clear();
  }

  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept { return addresses_; }
  [[nodiscard]] bool is_encrypted() const noexcept { return identity_ != nullptr; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(); }

 private:
  /// A handler made of a function.
  class ready final : public tcp::event_handler {
   public:
    explicit ready(std::function<void()> what) : what_(std::move(what)) {}
    void on_event(std::uint32_t /*events*/) noexcept override {
      try {
        what_();
      } catch (const std::exception& e) {
        log::error(e.what());
      }
    }

   private:
    std::function<void()> what_;
  };

  /// A connection that has not said yet what it wants.
  struct visitor {
    unique_fd socket;
    std::unique_ptr<tcp::stream> connection; ///< of a host, once its preamble was read
    std::string from;
    tcp::preamble first;
    std::size_t have = 0;
    std::vector<std::byte> request;
    [[nodiscard]] int fd() const noexcept { return connection ? connection->fd() : socket.get(); }
  };

  struct target {
    child_process process;
    std::shared_ptr<relay> to_host;
    std::string from;
  };

  void check_safety() const {
    bool beyond_loopback = false;
    for (const tcp::socket_address& a : tcp::resolve(own_.listen))
      beyond_loopback = beyond_loopback || !a.is_loopback();
    if (identity_ && own_.plain) {
      throw setting_error("--plain and a key contradict each other; leave one of them out");
    }
    if (identity_ || !beyond_loopback) return;
    if (!own_.plain) {
      throw setting_error("without a key the server listens on loopback only (127.0.0.1 or ::1); " +
                          own_.listen.text() +
                          " needs --key FILE, with --farcall-serve --farcall-key FILE "
                          "('farcall keygen FILE' makes one), or certificates");
    }
    if (!own_.trusts_network) {
      throw setting_error("--plain at " + own_.listen.text() +
                          " lets everybody who can reach it run " + own_.program +
                          "; use --key FILE, or add --i-trust-this-network if nobody else can");
    }
  }

  // ---- visitors ---------------------------------------------------------------------------------

  void take_visitors(int listener) {
    for (int i = 0; i < accept_batch; ++i) {
      std::optional<unique_fd> socket;
      try {
        socket = tcp::accept_from(listener);
      } catch (const error& e) {
        log::error(e.what());
        loop_->modify(listener, 0);
        loop_->at(clock::now() + out_of_descriptors, [weak = weak_from_this(), listener] {
          if (const auto self = weak.lock()) self->loop_->modify(listener, EPOLLIN);
        });
        return;
      }
      if (!socket) return;
      const std::string from = tcp::peer_text(socket->get());
      if (visitors_.size() >= most_visitors) {
        send_away(visitors_.begin()->first,
                  "it has not said yet what it wants, and too many others have come");
      }
      auto v = std::make_shared<visitor>();
      v->socket = std::move(*socket);
      v->socket.close_on_fork();
      v->from = from;
      const int fd = v->socket.get();
      const std::uint64_t number = ++last_visitor_;
      visitors_[number] = v;
      loop_->add(fd, EPOLLIN, std::make_shared<ready>([weak = weak_from_this(), number] {
                   if (const auto self = weak.lock()) self->hear(number);
                 }));
      loop_->at(clock::now() + own_.handshake_timeout, [weak = weak_from_this(), number] {
        if (const auto self = weak.lock())
          self->send_away(number, "it did not say in time what it wants");
      });
    }
  }

  void send_away(std::uint64_t number, const std::string& why) {
    const auto at = visitors_.find(number);
    if (at == visitors_.end()) return;
    loop_->remove(at->second->fd());
    if (!why.empty()) {
      refusals_.warning("connection from " + at->second->from + " refused: " + why);
    }
    visitors_.erase(at);
  }

  void hear(std::uint64_t number) {
    const auto at = visitors_.find(number);
    if (at == visitors_.end()) return;
    const std::shared_ptr<visitor> v = at->second;
    try {
      if (v->connection) {
        hear_request(number, *v);
      } else {
        hear_preamble(number, *v);
      }
    } catch (const std::exception& e) {
      send_away(number, e.what());
    }
  }

  void hear_preamble(std::uint64_t number, visitor& v) {
    // Not a byte more: what follows is for somebody else.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
    const ssize_t got = ::recv(v.socket.get(), reinterpret_cast<std::byte*>(&v.first) + v.have,
                               sizeof v.first - v.have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      send_away(number, "it ended before it said what it wants");
      return;
    }
    v.have += static_cast<std::size_t>(got);
    if (v.have < sizeof v.first) return;
    const char* flaw = tcp::flaw_of(v.first);
    if (v.first.magic == tcp::preamble_magic && v.first.version != tcp::connection_version) {
      reply(v, tcp::admission::other_version);
    }
    if (flaw != nullptr) {
      send_away(number, flaw);
    } else if (v.first.kind == tcp::connection_kind::control) {
      meet_host(number, v);
    } else {
      hand_on(number, v);
    }
  }

  static void reply(const visitor& v, tcp::admission word) {
    tcp::admission_message m;
    m.word = word;
    // A fresh socket has space for this.
    ::send(v.socket.get(), &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void meet_host(std::uint64_t number, visitor& v) {
    const bool wants_encryption = v.first.is_encrypted != 0;
    if (wants_encryption != is_encrypted()) {
      const tcp::admission word =
          is_encrypted() ? tcp::admission::needs_key : tcp::admission::has_no_key;
      reply(v, word);
      send_away(number, is_encrypted() ? "it came without a key" : "it has a key and we have none");
      return;
    }
    if (count_.load() >= own_.most_targets) {
      reply(v, tcp::admission::is_full);
      send_away(number, "there are as many targets as there may be");
      return;
    }
    reply(v, tcp::admission::come_in);
    loop_->remove(v.socket.get());
    v.connection = identity_ ? tcp::tls_server(std::move(v.socket), identity_)
                             : tcp::plain_stream(std::move(v.socket));
    loop_->add(v.connection->fd(), EPOLLIN,
               std::make_shared<ready>([weak = weak_from_this(), number] {
                 if (const auto self = weak.lock()) self->hear(number);
               }));
  }

  void hear_request(std::uint64_t number, visitor& v) {
    std::array<std::byte, request_frame_bytes> piece;
    while (v.request.size() < request_frame_bytes) {
      const iovec part{piece.data(), request_frame_bytes - v.request.size()};
      const tcp::io_result got = v.connection->read({&part, 1});
      if (got.status == tcp::io_status::would_block) {
        loop_->modify(v.connection->fd(),
                      v.connection->read_wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return;
      }
      if (got.status != tcp::io_status::done) {
        send_away(number, got.status == tcp::io_status::closed
                              ? "it ended before it said what it wants"
                              : v.connection->failure());
        return;
      }
      v.request.insert(v.request.end(), piece.begin(),
                       piece.begin() + static_cast<std::ptrdiff_t>(got.bytes));
    }
    start_target(number, v);
  }

  // ---- targets ----------------------------------------------------------------------------------

  void start_target(std::uint64_t number, visitor& v) {
    const target_request request = decode_request(v.request);
    const target_name name{v.first.job, v.first.to};
    if (targets_.contains(name)) throw malformed_message("it asks for a node twice");
    if (count_.load() >= own_.most_targets) {
      throw error("there are as many targets as there may be");
    }
    auto [ours, theirs] = control_socket::make_pair();
    target t;
    t.from = v.from;
    std::string failure;
    try {
      t.process = child_process::start(own_.program, own_.arguments, bootstrap_variable,
                                       std::to_string(theirs.fd()), theirs.fd(), environment_);
    } catch (const start_failed& e) {
      failure = e.what();
      log::error(failure);
    }
    loop_->remove(v.connection->fd());
    t.to_host = std::make_shared<relay>(
        *loop_, std::move(ours), std::move(v.connection), request.heartbeat_timeout,
        [weak = weak_from_this(), name](control_socket& /*near*/, const std::string& why) {
          if (const auto self = weak.lock()) self->lose_host(name, why);
        });
    visitors_.erase(number);
    t.to_host->await_exit_reason();
    t.to_host->start();
    if (!failure.empty()) {
      tell_end(*t.to_host, failure, -1);
      return;
    }
    const int end = t.process.end_fd();
    log::info("target " + std::to_string(t.process.pid()) + " started for " + t.from);
    targets_[name] = std::move(t);
    count_.fetch_add(1);
    if (end < 0) throw error("this system has no descriptors of processes (pidfd); Linux 5.3 has");
    loop_->add(end, EPOLLIN, std::make_shared<ready>([weak = weak_from_this(), name] {
                 if (const auto self = weak.lock()) self->lose_target(name);
               }));
  }

  static void tell_end(relay& to_host, const std::string& how, int code) {
    to_host.finish_far(control::ended, messages::ended{how, code}.encode());
  }

  void lose_target(const target_name& name) {
    const auto at = targets_.find(name);
    if (at == targets_.end()) return;
    target& t = at->second;
    const auto how = t.process.wait(clock::now());
    if (!how) return;
    loop_->remove(t.process.end_fd());
    log::info("target " + std::to_string(t.process.pid()) + " of " + t.from + " " + *how);
    tell_end(*t.to_host, "process " + std::to_string(t.process.pid()) + " there " + *how,
             t.process.exit_code().value_or(-1));
    t.process.reap();
    targets_.erase(name);
    count_.fetch_sub(1);
  }

  void lose_host(const target_name& name, const std::string& why) {
    const auto at = targets_.find(name);
    if (at == targets_.end()) return;
    if (!why.empty()) log::warning("the host at " + at->second.from + ": " + why);
    // It dies without its host; lose_target() follows.
    at->second.process.kill();
  }

  void hand_on(std::uint64_t number, visitor& v) {
    const auto at = targets_.find({v.first.job, v.first.to});
    if (at == targets_.end()) {
      send_away(number, "it asks for a node that is not here");
      return;
    }
    loop_->remove(v.socket.get());
    const int fd = v.socket.get();
    const std::vector<std::byte> for_node = messages::transport{no_node, "tcp", {}}.encode();
    if (!at->second.to_host->send_near(control::transport, for_node, std::span(&fd, 1))) {
      send_away(number, "its node does not take connections");
      return;
    }
    send_away(number, "");
  }

  server_options own_;
  std::shared_ptr<const tcp::tls_identity> identity_;
  /// Of targets. Taken once: they are started on the reactor's thread.
  std::vector<std::string> environment_ = own_environment();
  std::vector<unique_fd> listeners_;
  std::vector<tcp::address> addresses_;
  std::map<std::uint64_t, std::shared_ptr<visitor>> visitors_;
  std::uint64_t last_visitor_ = 0;
  std::map<target_name, target> targets_;
  std::atomic<std::uint32_t> count_{0};
  log::limited_log refusals_{"more connections were refused"};
  std::unique_ptr<tcp::reactor> loop_; ///< first to end
};

server::server(server_options o) {
  open_standard_descriptors();
  impl_ = std::make_shared<impl>(std::move(o));
  impl_->start();
}

server::~server() { impl_->stop(); }

const std::vector<tcp::address>& server::addresses() const noexcept { return impl_->addresses(); }

std::string server::protection() const {
  return impl_->is_encrypted() ? "encrypted (TLS 1.3), for those who have the key"
                               : "unencrypted, for everybody who can reach it";
}

std::uint32_t server::targets() const noexcept { return impl_->count(); }

namespace {

sigset_t end_signals() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  return set;
}

} // namespace

void block_end_signals() noexcept {
  const sigset_t set = end_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void serve_until_signalled(const server& s) {
  for (const tcp::address& a : s.addresses())
    std::printf("farcall: serving at tcp://%s, %s\n", a.text().c_str(), s.protection().c_str());
  // The process that started us reads the port there.
  std::fflush(stdout);
  const sigset_t set = end_signals();
  int got = 0;
  while (::sigwait(&set, &got) != 0) {
  }
}

} // namespace farcall
