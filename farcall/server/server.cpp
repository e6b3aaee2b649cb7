// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/server/client_quota.hpp>
#include <farcall/server/server.hpp>
#include <farcall/server/server_identity.hpp>
#include <farcall/server/server_safety.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall {
namespace {

using target_name = std::pair<tcp::job_name, node_id>;

/// Returns this process's environment without the variable by which servers tell their addresses.
std::vector<std::string> environment_without_addresses() {
  std::vector<std::string> all = own_environment();
  const std::string mark = std::string(server_addresses_variable) + "=";
  std::erase_if(all, [&](const std::string& entry) { return entry.starts_with(mark); });
  return all;
}

/// Maximum wait for hosts to receive the notice of the end; a stopped host never receives it.
constexpr std::chrono::seconds exit_reason_time{1};

/// Time between two attempts to pass on a connection whose client has reached its lane limit.
constexpr std::chrono::milliseconds lane_gap{20};
constexpr int lane_looks = 10;

} // namespace

/// Implementation of the server. After the constructor, private functions run on the loop's thread.
class server::impl : public std::enable_shared_from_this<server::impl> {
 public:
  explicit impl(server_options o) : own_(std::move(o)), admits_(make_server_identity(own_.access)) {
    std::vector<unique_fd> listeners;
    for (const int fd : own_.listeners)
      listeners.emplace_back(fd);
    detail::require_safe(own_, is_encrypted());
    if (listeners.empty()) {
      listeners = tcp::listen_on_all(own_.places());
      for (const tcp::address& at : own_.places()) {
        if (at.is_path()) files_.emplace_back(at.host);
      }
    }
    if (!drained_) throw_system_error("making a server (descriptor limit?)", errno);
    drained_.close_on_fork();
    loop_ = std::make_unique<event_loop>("farcall-loop");
    acceptor_ =
        std::make_shared<tcp::acceptor>(*loop_, std::move(listeners), own_.handshake_timeout);
  }

  void start() {
    acceptor_->start(
        [weak = weak_from_this()](unique_fd socket, const tcp::preamble& first,
                                  const std::string& from) {
          if (const auto self = weak.lock()) self->take(std::move(socket), first, from);
        },
        [weak = weak_from_this()](const std::string& from, tcp::refusal_cause cause,
                                  const std::string& why) {
          if (const auto self = weak.lock()) self->events_.refused(from, cause, why);
        });
  }

  void stop() {
    acceptor_->stop();
    files_.clear();
    loop_->post([self = shared_from_this()] { self->end_targets(); });
    (void)all_gone_.get_future().wait_for(exit_reason_time);
    // Stop the loop before the targets are destroyed, because functions on the loop use the
    // targets. The loop object is kept, because functions that still run use it.
    loop_->stop();
    targets_.clear();
  }

  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept {
    return acceptor_->addresses();
  }
  /// Reads the files of keys and clients again, and ends the targets of clients that were removed.
  void reload() {
    auto next = std::make_shared<server_identity>();
    try {
      if (!own_.reads_access_once.empty()) throw setting_error(own_.reads_access_once);
      *next = make_server_identity(own_.access);
    } catch (const std::exception& e) {
      loop_->post([weak = weak_from_this(), why = std::string(e.what())] {
        if (const auto self = weak.lock()) self->events_.not_reloaded(why);
      });
      throw;
    }
    loop_->post([weak = weak_from_this(), next] {
      if (const auto self = weak.lock()) self->take_only(std::move(*next));
    });
  }

  [[nodiscard]] const std::string& protection_at(const tcp::address& where) const noexcept {
    return where.is_path() ? protection_of_paths_ : protection_;
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(); }
  [[nodiscard]] int drained_fd() const noexcept { return drained_.get(); }

  [[nodiscard]] std::optional<server_status> status(std::chrono::milliseconds longest) {
    const auto reply = std::make_shared<std::promise<server_status>>();
    std::future<server_status> said = reply->get_future();
    loop_->post([weak = weak_from_this(), reply] {
      if (const auto self = weak.lock()) reply->set_value(self->status_now());
    });
    if (said.wait_for(longest) != std::future_status::ready) return std::nullopt;
    return said.get();
  }

  void drain() {
    loop_->post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->begin_to_drain();
    });
  }

 private:
  /// A connection from a host whose request has not arrived completely.
  struct visitor {
    std::unique_ptr<tcp::stream> connection;
    std::string from;
    tcp::preamble first;
    std::vector<std::byte> request;
  };

  struct target {
    child_process process;
    std::shared_ptr<relay> to_host;
    /// Sender of the target's output; null if the target prints to the server's output
    std::shared_ptr<tcp::output_sender> prints;
    server_client client;
    bool host_knows_end = false;
    detail::taken_connections lanes;
    std::optional<std::string> reason; ///< reason why the server has ended the target
  };

  /// The result never changes, because the options decide it, and reload() keeps the options.
  [[nodiscard]] bool is_encrypted() const noexcept { return admits_.own != nullptr; }

  [[nodiscard]] std::string protection_at_start() const {
    if (!is_encrypted()) return "unencrypted, for everybody who can reach it";
    const std::string key = admits_.own->own_public_key();
    return "encrypted (TLS 1.3), for hosts with " +
           (key.empty() ? "the key" : "a certificate; the server's public key is " + key);
  }

  // ---- connections ------------------------------------------------------------------------------

  void take(unique_fd socket, const tcp::preamble& first, const std::string& from) {
    if (!is_encrypted() && tcp::is_of_another_user(socket.get())) {
      if (first.kind == tcp::connection_kind::control) {
        tcp::reply(socket.get(), tcp::admission::is_of_another_user);
      }
      throw tcp::connection_refused(tcp::refusal_cause::key,
                                    "without a key only our own user has targets here");
    }
    if (first.kind == tcp::connection_kind::control) {
      meet_host(std::move(socket), first, from);
    } else if (first.kind == tcp::connection_kind::join) {
      throw tcp::connection_refused(tcp::refusal_cause::request,
                                    "it wants to join a job, and this is a server of targets");
    } else {
      hand_on(std::move(socket), first, from, lane_looks);
    }
  }

  void send_away(std::uint64_t number, tcp::refusal_cause cause, const std::string& why) {
    const auto gone = visitors_.take(number);
    if (!gone) return;
    const visitor& v = **gone;
    if (v.connection) loop_->remove(v.connection->fd());
    events_.refused(v.from, cause, why);
  }

  void meet_host(unique_fd socket, const tcp::preamble& first, const std::string& from) {
    const bool wants_encryption = first.is_encrypted != 0;
    if (wants_encryption != is_encrypted()) {
      tcp::reply(socket.get(),
                 is_encrypted() ? tcp::admission::needs_key : tcp::admission::has_no_key);
      throw tcp::connection_refused(tcp::refusal_cause::key,
                                    is_encrypted()
                                        ? "it came without a key or certificate"
                                        : "it has a key or certificate, and we have none");
    }
    if (is_draining_) {
      tcp::reply(socket.get(), tcp::admission::is_draining);
      throw tcp::connection_refused(tcp::refusal_cause::draining, "no new targets are started");
    }
    if (count_.load() >= own_.max_targets) {
      tcp::reply(socket.get(), tcp::admission::is_full);
      throw tcp::connection_refused(tcp::refusal_cause::full,
                                    "there are as many targets as there may be");
    }
    tcp::reply(socket.get(), tcp::admission::come_in);
    if (const auto displaced = visitors_.displaced()) {
      send_away(*displaced, tcp::refusal_cause::displaced,
                "it has sent no request yet, and too many other connections wait");
    }
    auto v = std::make_shared<visitor>();
    v->from = from;
    v->first = first;
    v->connection = is_encrypted() ? tcp::tls_server(std::move(socket), admits_.own)
                                   : tcp::plain_stream(std::move(socket));
    const std::uint64_t number = visitors_.add(from, v);
    loop_->add(v->connection->fd(), EPOLLIN,
               std::make_shared<function_handler>([weak = weak_from_this(), number] {
                 if (const auto self = weak.lock()) self->receive(number);
               }));
    loop_->at(clock::now() + own_.handshake_timeout, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock())
        self->send_away(number, tcp::refusal_cause::timeout,
                        "it sent no request within " +
                            std::to_string(self->own_.handshake_timeout.count()) + " ms");
    });
  }

  void receive(std::uint64_t number) {
    const std::shared_ptr<visitor>* const there = visitors_.find(number);
    if (there == nullptr) return;
    const std::shared_ptr<visitor> v = *there;
    try {
      receive_request(number, *v);
    } catch (const tcp::connection_refused& e) {
      send_away(number, e.cause(), e.what());
    } catch (const std::exception& e) {
      send_away(number, tcp::refusal_cause::request, e.what());
    }
  }

  void receive_request(std::uint64_t number, visitor& v) {
    std::array<std::byte, request_frame_bytes> piece;
    v.request.reserve(request_frame_bytes);
    while (v.request.size() < request_frame_bytes) {
      const iovec part{piece.data(), request_frame_bytes - v.request.size()};
      const tcp::io_result got = v.connection->read({&part, 1});
      if (got.status == tcp::io_status::would_block) {
        loop_->modify(v.connection->fd(),
                      v.connection->read_wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return;
      }
      if (got.status != tcp::io_status::done) {
        if (got.status == tcp::io_status::closed) {
          send_away(number, tcp::refusal_cause::ended, "it ended before it sent a request");
        } else {
          send_away(number,
                    v.connection->is_established() ? tcp::refusal_cause::ended
                                                   : tcp::refusal_cause::authentication,
                    v.connection->failure());
        }
        return;
      }
      v.request.insert(v.request.end(), piece.begin(),
                       piece.begin() + static_cast<std::ptrdiff_t>(got.bytes));
      // Wipe the bytes, because the request holds the job's secret.
      wipe(std::span(piece));
    }
    start_target(number, v);
  }

  // ---- clients ----------------------------------------------------------------------------------

  void take_only(server_identity next) {
    admits_ = std::move(next);
    std::size_t ended = 0;
    for (auto& [name, t] : targets_) {
      if (!is_revoked(t.client.name)) continue;
      end_target(name, "client " + t.client.name + " has been revoked");
      ++ended;
    }
    events_.reloaded(ended);
  }

  /// True if a client with a key is no longer in the files. False for a client with a certificate.
  [[nodiscard]] bool is_revoked(const std::string& client) const {
    return !client.empty() && admits_.own->has_keys() && !admits_.clients.contains(client);
  }

  /// Returns the client's limits; null if it has none, for instance because it has no key of its
  /// own.
  [[nodiscard]] const detail::client_limits* limits_of(const std::string& client) const {
    const auto at = admits_.clients.find(client);
    return at == admits_.clients.end() ? nullptr : &at->second;
  }

  [[nodiscard]] std::uint32_t targets_of(const std::string& client) const {
    return static_cast<std::uint32_t>(
        std::count_if(targets_.begin(), targets_.end(),
                      [&](const auto& t) { return t.second.client.name == client; }));
  }

  [[nodiscard]] std::size_t lanes_of(const std::string& client) const {
    std::size_t all = 0;
    for (const auto& [name, t] : targets_)
      all += t.client.name == client ? t.lanes.most() : 0;
    return all;
  }

  /// True if the target's client is below its limit of connections.
  [[nodiscard]] bool has_lane_left(const target& to) {
    const std::string& client = to.client.name;
    const detail::client_limits* const limits = client.empty() ? nullptr : limits_of(client);
    if (limits == nullptr || !limits->lanes || lanes_of(client) < *limits->lanes) return true;
    // Limit the rate of these checks, because peers that have proved nothing can cause them.
    if (const time_point now = clock::now(); now - lanes_polled_ >= lane_gap / 2) {
      lanes_polled_ = now;
      for (auto& [name, t] : targets_) {
        if (t.client.name == client) t.lanes.forget_closed(t.process.pid());
      }
    }
    return lanes_of(client) < *limits->lanes;
  }

  [[noreturn]] void refuse_lane(const target& to, int socket) {
    tcp::reply(socket, tcp::admission::has_no_lane_left);
    throw tcp::connection_refused(tcp::refusal_cause::full,
                                  "client " + to.client.name + " has " +
                                      std::to_string(lanes_of(to.client.name)) +
                                      " connections to its targets and may have no more (lanes=)");
  }

  /// Tries after a pause to pass the connection to its target, and logs a refusal if that fails.
  void poll_again(unique_fd socket, const tcp::preamble& first, const std::string& from,
                  int looks) {
    ++waiting_lanes_;
    loop_->at(clock::now() + lane_gap,
              [weak = weak_from_this(), held = std::make_shared<unique_fd>(std::move(socket)),
               first, from, looks] {
                const auto self = weak.lock();
                if (!self) return;
                --self->waiting_lanes_;
                try {
                  self->hand_on(std::move(*held), first, from, looks);
                } catch (const tcp::connection_refused& e) {
                  self->events_.refused(from, e.cause(), e.what());
                } catch (const std::exception& e) {
                  self->events_.refused(from, tcp::refusal_cause::request, e.what());
                }
              });
  }

  /// Counts a connection that the target reports. Returns false for a message to the target's host.
  bool take_of_target(const target_name& name, control kind, std::span<const std::byte> body) {
    const auto at = targets_.find(name);
    if (kind == control::present && at != targets_.end()) at->second.process.note_joined();
    if (kind != control::transport) return false;
    const messages::transport m = messages::transport::decode(body);
    if (m.peer != no_node) return false;
    if (at != targets_.end()) at->second.lanes.add(tcp::decode_taken(m.bytes));
    return true;
  }

  /// Kills the target's process. When the process has ended, lose_target() removes the target.
  void end_target(const target_name& name, const std::string& why) {
    const auto at = targets_.find(name);
    if (at == targets_.end()) return;
    at->second.reason = why;
    at->second.process.kill();
  }

  /// True if the host has chosen a processor that its client may not use; the target then ends.
  bool is_beyond(const target_name& name, control kind, std::span<const std::byte> body) {
    if (kind != control::hello) return false;
    const auto at = targets_.find(name);
    if (at == targets_.end() || at->second.client.name.empty()) return false;
    const detail::client_limits* const limits = limits_of(at->second.client.name);
    if (limits == nullptr || limits->cpus.empty()) return false;
    const std::optional<unsigned> cpu = messages::hello::decode(body).cpu;
    if (!cpu || std::binary_search(limits->cpus.begin(), limits->cpus.end(), *cpu)) return false;
    end_target(name, "processor " + std::to_string(*cpu) +
                         " (cpu=) is not among the processors that client " +
                         at->second.client.name + " may use here");
    return true;
  }

  // ---- targets ----------------------------------------------------------------------------------

  /// Throws connection_refused if the request is for another node, lacks the job's key, or comes
  /// from a revoked client, or if the node already runs here.
  void require_own_node(const target_request& request, const target_name& name,
                        const std::string& client) const {
    if (target_name{request.credentials.name, request.node} != name) {
      throw tcp::connection_refused(tcp::refusal_cause::request,
                                    "its preamble and its request name different nodes or jobs: a "
                                    "party on the network path may have changed the preamble");
    }
    if (tcp::job_name_of(request.credentials.key) != request.credentials.name) {
      throw tcp::connection_refused(tcp::refusal_cause::authentication,
                                    "it asks for a node of a job whose key it does not have");
    }
    if (targets_.contains(name)) {
      throw tcp::connection_refused(tcp::refusal_cause::request,
                                    "node " + std::to_string(name.second) +
                                        " of this job runs here already");
    }
    if (is_revoked(client)) {
      throw tcp::connection_refused(tcp::refusal_cause::authentication,
                                    "client " + client + " has been revoked");
    }
  }

  void start_target(std::uint64_t number, visitor& v) {
    const target_request request = decode_request(v.request);
    wipe(std::span(v.request));
    const target_name name{v.first.job, v.first.to};
    auto [ours, theirs] = control_socket::make_pair();
    target t;
    t.client = {v.first.job, v.from, v.connection->peer_name()};
    const std::string& client = t.client.name;
    const detail::client_limits* const limits = limits_of(client);
    if (!own_.keeps_output) t.prints = std::make_shared<tcp::output_sender>(*loop_);
    std::string failure;
    try {
      require_own_node(request, name, client);
      if (is_draining_) throw start_failed(tcp::refusal_text(tcp::admission::is_draining), no_node);
      // Check the limit again, because other hosts may have got targets in the meantime.
      if (count_.load() >= own_.max_targets)
        throw start_failed(tcp::refusal_text(tcp::admission::is_full), no_node);
      require_short(request.heartbeat_timeout);
      if (request.wants_sampler && own_.sampler.empty())
        throw start_failed("this server has no sampler; start it with 'farcall serve'", no_node);
      const detail::client_limits none;
      const detail::client_limits& held_to = limits != nullptr ? *limits : none;
      detail::require_space(client, held_to, targets_of(client));
      const detail::cpu_restriction on(client, held_to.cpus);
      mark_target_socket(ours.fd());
      t.process =
          child_process::start(request.wants_sampler ? own_.sampler.front() : own_.program,
                               request.wants_sampler ? own_.sampler : own_.arguments,
                               bootstrap_variable, std::to_string(theirs.fd()), theirs.fd(),
                               target_environment(), t.prints ? t.prints->ends() : child_output{});
      if (held_to.memory) detail::limit_memory(t.process.pid(), *held_to.memory);
      watch_end(t.process, name);
    } catch (const tcp::connection_refused& e) {
      failure = e.what();
      events_.refused(v.from, e.cause(), failure);
    } catch (const error& e) {
      failure = e.what();
      events_.target_not_started(t.client, name.second, failure);
    }
    loop_->remove(v.connection->fd());
    t.to_host = std::make_shared<relay>(
        *loop_, std::move(ours), std::move(v.connection), request.heartbeat_timeout,
        [weak = weak_from_this(), name, has_target = failure.empty()](control_socket& /*near*/,
                                                                      const std::string& why) {
          if (const auto self = weak.lock()) self->lose_host(name, has_target, why);
        });
    ++links_;
    visitors_.take(number);
    if (!failure.empty()) {
      t.to_host->await_exit_reason();
      t.to_host->start();
      tell_end(*t.to_host, failure, -1);
      return;
    }
    t.to_host->take_here([weak = weak_from_this(), name, prints = std::weak_ptr(t.prints)](
                             control kind, std::span<const std::byte> body) {
      const auto there = prints.lock();
      if (kind == control::written && there) {
        there->note_written(body);
        return true;
      }
      const auto self = weak.lock();
      return self && self->is_beyond(name, kind, body);
    });
    t.to_host->take_near_here(
        [weak = weak_from_this(), name](control kind, std::span<const std::byte> body) {
          const auto self = weak.lock();
          return self && self->take_of_target(name, kind, body);
        });
    t.to_host->await_exit_reason();
    t.to_host->start();
    if (t.prints) t.prints->start(t.to_host);
    events_.target_started(t.client, name.second, t.process.pid(), request.wants_sampler);
    targets_[name] = std::move(t);
    count_.fetch_add(1);
  }

  /// Makes the loop call lose_target() when the process ends. Throws error if that is impossible;
  /// the caller then ends the process, because the server would not notice the process's end.
  void watch_end(const child_process& process, const target_name& name) {
    const int end = process.end_fd();
    if (end < 0) {
      throw start_failed("the end of a target could not be watched (pidfd): the server has no "
                         "descriptor left, or the system has none of processes (Linux 5.3 has)",
                         no_node);
    }
    loop_->add(end, EPOLLIN, std::make_shared<function_handler>([weak = weak_from_this(), name] {
                 if (const auto self = weak.lock()) self->lose_target(name);
               }));
  }

  /// Returns the environment for a new target, which contains the current addresses of this server.
  [[nodiscard]] std::vector<std::string> target_environment() const {
    std::string addresses;
    for (const tcp::socket_address& a : tcp::reachable_addresses(acceptor_->addresses()))
      addresses += (addresses.empty() ? "" : ",") + a.text();
    std::vector<std::string> all = environment_;
    all.push_back(std::string(server_addresses_variable) + "=" + addresses);
    return all;
  }

  void require_short(std::chrono::milliseconds heartbeat_timeout) const {
    const std::chrono::milliseconds longest = own_.max_heartbeat_timeout;
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
    events_.target_ended(t.client, name.second, t.process.pid(),
                         t.reason ? *how + ": " + *t.reason : *how);
    if (t.prints) t.prints->finish();
    if (!t.host_knows_end) {
      tell_end(*t.to_host,
               t.reason.value_or("process " + std::to_string(t.process.pid()) + " there " + *how),
               t.process.exit_code().value_or(-1));
    }
    t.process.reap();
    targets_.erase(name);
    count_.fetch_sub(1);
    look_for_end();
  }

  void lose_host(const target_name& name, bool has_target, const std::string& why) {
    --links_;
    look_for_end();
    const auto at = has_target ? targets_.find(name) : targets_.end();
    if (at == targets_.end()) return;
    if (!why.empty()) events_.host_lost(at->second.client, why);
    // End the target, because its host has gone. When its process ends, lose_target() removes it.
    at->second.process.kill();
  }

  /// Passes a connection to its target. Tries up to `looks` times more if the client is at its
  /// limit, because a connection that the client has closed counts until the target closes it, too.
  void hand_on(unique_fd socket, const tcp::preamble& first, const std::string& from, int looks) {
    const auto at = targets_.find({first.job, first.to});
    if (at == targets_.end()) {
      throw tcp::connection_refused(tcp::refusal_cause::unknown_node,
                                    "it asks for a node that is not here");
    }
    const int fd = socket.get();
    if (!has_lane_left(at->second)) {
      if (looks == 0 || waiting_lanes_ == max_unproved_) refuse_lane(at->second, fd);
      return poll_again(std::move(socket), first, from, looks - 1);
    }
    const std::vector<std::byte> for_node =
        messages::transport{no_node, std::string(tcp::scheme), {}}.encode();
    if (!at->second.to_host->send_near(control::transport, for_node, std::span(&fd, 1))) {
      throw tcp::connection_refused(tcp::refusal_cause::request,
                                    "its node does not take connections");
    }
  }

  // ---- end of the server ------------------------------------------------------------------------

  void begin_to_drain() {
    if (std::exchange(is_draining_, true)) return;
    events_.draining(targets_.size());
    look_for_end();
  }

  /// Ends all targets with the server. Hosts get the reason before their connections break.
  void end_targets() {
    is_draining_ = true;
    is_ending_ = true;
    events_.ending(targets_.size());
    for (auto& [name, t] : targets_) {
      tell_end(*t.to_host, "its server has ended, and its targets with it", -1);
      t.host_knows_end = true;
      t.process.kill();
    }
    look_for_end();
  }

  /// Signals that the server has drained. Ends the wait in stop() once no link to a host is left.
  void look_for_end() {
    if (!is_draining_ || !targets_.empty()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(drained_.get(), &one, sizeof one);
    if (is_ending_ && links_ == 0 && !std::exchange(is_gone_, true)) all_gone_.set_value();
  }

  [[nodiscard]] server_status status_now() const {
    server_status s;
    s.targets = targets_.size();
    s.hosts = events_.hosts();
    s.unproved = acceptor_->unproved() + visitors_.size();
    s.is_draining = is_draining_;
    s.targets_started = events_.targets_started();
    s.targets_not_started = events_.targets_not_started();
    s.connections = acceptor_->accepted();
    s.refused = events_.refusals();
    return s;
  }

  server_options own_;
  server_identity admits_;
  const std::string protection_ = protection_at_start();
  const std::string protection_of_paths_ =
      is_encrypted() ? protection_ : "unencrypted, for its own user";
  /// Environment of targets, copied in the constructor because other threads may change it later.
  std::vector<std::string> environment_ = environment_without_addresses();
  std::vector<tcp::socket_file> files_; ///< sockets at the paths at which the server listens
  std::shared_ptr<tcp::acceptor> acceptor_;
  const std::size_t max_unproved_ = tcp::unproved_limit(tcp::acceptor::max_unproved);
  tcp::unproved_peers<std::shared_ptr<visitor>> visitors_{max_unproved_};
  std::map<target_name, target> targets_;
  std::atomic<std::uint32_t> count_{0};
  std::size_t waiting_lanes_ = 0; ///< connections that wait because of their client's limit
  time_point lanes_polled_{};
  server_events events_{own_.events};
  std::size_t links_ = 0; ///< number of links to hosts, including links of targets that have ended
  bool is_draining_ = false;
  bool is_ending_ = false;
  bool is_gone_ = false; ///< all_gone_ has its value
  std::promise<void> all_gone_;
  unique_fd drained_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<event_loop> loop_; ///< destroyed first
};

std::vector<tcp::address> server_options::places() const {
  std::vector<tcp::address> all{listen};
  all.insert(all.end(), also_listen.begin(), also_listen.end());
  return all;
}

server::server(server_options o) {
  open_standard_descriptors();
  impl_ = std::make_shared<impl>(std::move(o));
  impl_->start();
}

server::~server() { impl_->stop(); }

const std::vector<tcp::address>& server::addresses() const noexcept { return impl_->addresses(); }

std::string server::protection_at(const tcp::address& where) const {
  return impl_->protection_at(where);
}

void server::reload() const { impl_->reload(); }

std::uint32_t server::targets() const noexcept { return impl_->count(); }

std::optional<server_status> server::status(std::chrono::milliseconds longest) const {
  return impl_->status(longest);
}

void server::drain() { impl_->drain(); }

int server::drained_fd() const noexcept { return impl_->drained_fd(); }

} // namespace farcall
