#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/server.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/unproved_peers.hpp>

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

using target_name = std::pair<tcp::job_name, node_id>;

/// Ours may have those of a server that we are a target of.
std::vector<std::string> environment_without_addresses() {
  std::vector<std::string> all = own_environment();
  const std::string mark = std::string(server_addresses_variable) + "=";
  std::erase_if(all, [&](const std::string& entry) { return entry.starts_with(mark); });
  return all;
}

} // namespace

/// Everything but construction happens on the reactor's thread.
class server::impl : public std::enable_shared_from_this<server::impl> {
 public:
  explicit impl(server_options o) : own_(std::move(o)), identity_(make_identity(own_.access)) {
    check_safety();
    std::vector<unique_fd> listeners = tcp::listen_on(own_.listen);
    loop_ = std::make_unique<tcp::reactor>("farcall-serve");
    acceptor_ =
        std::make_shared<tcp::acceptor>(*loop_, std::move(listeners), own_.handshake_timeout);
  }

  void start() {
    acceptor_->start([weak = weak_from_this()](unique_fd socket, const tcp::preamble& first,
                                               const std::string& from) {
      if (const auto self = weak.lock()) self->take(std::move(socket), first, from);
    });
  }

  void stop() {
    acceptor_->stop();
    // Nothing runs there afterwards that could use the targets. The reactor itself stays: what runs
    // there until then uses it.
    loop_->stop();
    targets_.clear();
  }

  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept {
    return acceptor_->addresses();
  }
  [[nodiscard]] bool is_encrypted() const noexcept { return identity_ != nullptr; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(); }

 private:
  /// A connection of a host that has not said yet which target it wants.
  struct visitor {
    std::unique_ptr<tcp::stream> connection;
    std::string from;
    std::string source;
    tcp::preamble first;
    std::vector<std::byte> request;
  };

  struct target {
    child_process process;
    std::shared_ptr<relay> to_host;
    std::shared_ptr<tcp::output_sender> prints; ///< null: where we do
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

  // ---- connections ------------------------------------------------------------------------------

  void take(unique_fd socket, const tcp::preamble& first, const std::string& from) {
    if (first.kind == tcp::connection_kind::control) {
      meet_host(std::move(socket), first, from);
    } else if (first.kind == tcp::connection_kind::join) {
      throw error("it wants to join a job, and this is a server of targets");
    } else {
      hand_on(std::move(socket), first);
    }
  }

  void send_away(std::uint64_t number, const std::string& why) {
    const auto at = visitors_.find(number);
    if (at == visitors_.end()) return;
    if (at->second->connection) loop_->remove(at->second->connection->fd());
    if (!why.empty()) acceptor_->refuse(at->second->from, why);
    unproved_.remove(number, at->second->source);
    visitors_.erase(at);
  }

  void meet_host(unique_fd socket, const tcp::preamble& first, const std::string& from) {
    const bool wants_encryption = first.is_encrypted != 0;
    if (wants_encryption != is_encrypted()) {
      tcp::reply(socket.get(),
                 is_encrypted() ? tcp::admission::needs_key : tcp::admission::has_no_key);
      throw error(is_encrypted() ? "it came without a key" : "it has a key and we have none");
    }
    if (count_.load() >= own_.most_targets) {
      tcp::reply(socket.get(), tcp::admission::is_full);
      throw error("there are as many targets as there may be");
    }
    tcp::reply(socket.get(), tcp::admission::come_in);
    if (const auto displaced = unproved_.displaced()) {
      send_away(*displaced,
                "it has not said yet which target it wants, and too many others have come");
    }
    auto v = std::make_shared<visitor>();
    v->from = from;
    v->source = tcp::source_of(from);
    v->first = first;
    v->connection = identity_ ? tcp::tls_server(std::move(socket), identity_)
                              : tcp::plain_stream(std::move(socket));
    const std::uint64_t number = ++last_visitor_;
    unproved_.add(number, v->source);
    visitors_[number] = v;
    loop_->add(v->connection->fd(), EPOLLIN,
               std::make_shared<tcp::function_handler>([weak = weak_from_this(), number] {
                 if (const auto self = weak.lock()) self->hear(number);
               }));
    loop_->at(clock::now() + own_.handshake_timeout, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock())
        self->send_away(number, "it did not say in time what it wants");
    });
  }

  void hear(std::uint64_t number) {
    const auto at = visitors_.find(number);
    if (at == visitors_.end()) return;
    const std::shared_ptr<visitor> v = at->second;
    try {
      hear_request(number, *v);
    } catch (const std::exception& e) {
      send_away(number, e.what());
    }
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
    if (target_name{request.credentials.name, request.node} != name) {
      throw malformed_message("it is for another node, or another job, than it says inside: "
                              "somebody on the way has changed that");
    }
    if (targets_.contains(name)) throw malformed_message("it asks for a node twice");
    if (count_.load() >= own_.most_targets) {
      throw error("there are as many targets as there may be");
    }
    auto [ours, theirs] = control_socket::make_pair();
    target t;
    t.from = v.from;
    if (!own_.keeps_output) t.prints = std::make_shared<tcp::output_sender>(*loop_);
    std::string failure;
    try {
      require_short(request.heartbeat_timeout);
      if (request.wants_sampler && own_.sampler.empty())
        throw start_failed("this server has no sampler; those of 'farcall serve' have", no_node);
      t.process =
          child_process::start(request.wants_sampler ? own_.sampler.front() : own_.program,
                               request.wants_sampler ? own_.sampler : own_.arguments,
                               bootstrap_variable, std::to_string(theirs.fd()), theirs.fd(),
                               target_environment(), t.prints ? t.prints->ends() : child_output{});
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
    unproved_.remove(number, v.source);
    visitors_.erase(number);
    if (t.prints) {
      t.to_host->take_here(
          [prints = std::weak_ptr(t.prints)](control kind, std::span<const std::byte> body) {
            if (kind != control::written) return false;
            if (const auto there = prints.lock()) there->note_written(body);
            return true;
          });
    }
    t.to_host->await_exit_reason();
    t.to_host->start();
    if (!failure.empty()) {
      tell_end(*t.to_host, failure, -1);
      return;
    }
    if (t.prints) t.prints->start(t.to_host);
    const int end = t.process.end_fd();
    log::info((request.wants_sampler ? "sampler " : "target ") + std::to_string(t.process.pid()) +
              " started for " + t.from);
    targets_[name] = std::move(t);
    count_.fetch_add(1);
    if (end < 0) throw error("this system has no descriptors of processes (pidfd); Linux 5.3 has");
    loop_->add(end, EPOLLIN,
               std::make_shared<tcp::function_handler>([weak = weak_from_this(), name] {
                 if (const auto self = weak.lock()) self->lose_target(name);
               }));
  }

  /// Interfaces come and go, so that the addresses are those of now.
  [[nodiscard]] std::vector<std::string> target_environment() const {
    std::string addresses;
    for (const tcp::socket_address& a : tcp::reachable_addresses(acceptor_->addresses()))
      addresses += (addresses.empty() ? "" : ",") + a.text();
    std::vector<std::string> all = environment_;
    all.push_back(std::string(server_addresses_variable) + "=" + addresses);
    return all;
  }

  void require_short(std::chrono::milliseconds heartbeat_timeout) const {
    const std::chrono::milliseconds longest = own_.longest_heartbeat_timeout;
    if (heartbeat_timeout <= longest) return;
    throw start_failed(
        "a heartbeat timeout of " + std::to_string(heartbeat_timeout.count()) +
            " ms is asked for, and this server allows " + std::to_string(longest.count()) +
            " ms; set FARCALL_HEARTBEAT_TIMEOUT_MS, or start the server with another "
            "--longest-heartbeat-timeout-ms",
        no_node);
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
    if (t.prints) t.prints->finish();
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

  void hand_on(unique_fd socket, const tcp::preamble& first) {
    const auto at = targets_.find({first.job, first.to});
    if (at == targets_.end()) throw error("it asks for a node that is not here");
    const int fd = socket.get();
    const std::vector<std::byte> for_node = messages::transport{no_node, "tcp", {}}.encode();
    if (!at->second.to_host->send_near(control::transport, for_node, std::span(&fd, 1))) {
      throw error("its node does not take connections");
    }
  }

  server_options own_;
  std::shared_ptr<const tcp::tls_identity> identity_;
  /// Of targets. Taken once: they are started on the reactor's thread.
  std::vector<std::string> environment_ = environment_without_addresses();
  std::shared_ptr<tcp::acceptor> acceptor_;
  std::map<std::uint64_t, std::shared_ptr<visitor>> visitors_;
  std::uint64_t last_visitor_ = 0;
  tcp::unproved_peers unproved_{tcp::acceptor::most_unproved}; ///< visitors
  std::map<target_name, target> targets_;
  std::atomic<std::uint32_t> count_{0};
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
