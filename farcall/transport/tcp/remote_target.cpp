// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/rank_port.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::chrono::milliseconds min_heartbeat_timeout{
    settings::row("heartbeat-timeout-ms").low};
constexpr std::chrono::milliseconds max_heartbeat_timeout{
    settings::row("heartbeat-timeout-ms").high};

/// Limit of starts in progress on one server. The server accepts twice as many connections that
/// have not proved themselves yet, because some of these connections come from other hosts.
constexpr std::size_t max_starts = 64;
static_assert(2 * max_starts <= tcp::acceptor::max_unproved);

/// A process that a server has started on its machine. Only the server watches the process. For the
/// host, the process has ended when its control socket has ended.
class remote_process final : public target_process {
 public:
  remote_process(control_socket socket, std::shared_ptr<relay> link, std::string server)
      : link_(std::move(link)) {
    set(std::move(socket), std::move(server));
  }

  bool is_near() const noexcept override { return false; }

  std::string end_text(const std::string& exit_reason) override {
    return " (" + program() +
           "): " + (exit_reason.empty() ? "the connection to its server has ended" : exit_reason);
  }

  std::string silence_text(const char* what) override {
    if (socket().has_ended())
      return std::string(": the connection to its server ended before it could ") + what;
    return std::string(" did not ") + what +
           " in time; does the server run a farcall program that makes a farcall::job early in "
           "main()?";
  }

  /// Closes the socket, upon which the server ends the process.
  void kill() noexcept override { socket().close(); }

 private:
  std::shared_ptr<relay> link_; ///< relay that extends the socket over the network
};

} // namespace

std::vector<std::byte> encode_credentials(const target_request& request) {
  byte_writer w;
  w.number(request.credentials.name);
  std::array<std::byte, tcp::job_key_bytes> key{};
  std::memcpy(key.data(), request.credentials.key.bytes().data(), key.size());
  w.number(key);
  wipe(std::span(key));
  w.number(std::uint32_t{request.credentials.is_encrypted ? 1U : 0U});
  w.number(static_cast<std::uint32_t>(request.heartbeat_timeout.count()));
  return std::move(w).bytes();
}

target_request decode_credentials(std::span<const std::byte> body) {
  byte_reader r(body, "the job's credentials");
  target_request request;
  request.credentials.name = r.number<tcp::job_name>();
  auto key = r.number<std::array<std::byte, tcp::job_key_bytes>>();
  request.credentials.key = tcp::secret::copy_of(key);
  wipe(std::span(key));
  request.credentials.is_encrypted = r.number<std::uint32_t>() != 0;
  request.heartbeat_timeout = std::chrono::milliseconds(r.number<std::uint32_t>());
  if (request.heartbeat_timeout < min_heartbeat_timeout ||
      request.heartbeat_timeout > max_heartbeat_timeout || !r.empty()) {
    throw malformed_message("the job's credentials make no sense");
  }
  return request;
}

std::vector<std::byte> encode_request(const target_request& request) {
  byte_writer w;
  w.number(request.node);
  std::vector<std::byte> all = std::move(w).bytes();
  const std::vector<std::byte> rest = encode_credentials(request);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

target_request decode_request(std::span<const std::byte> frame) {
  byte_reader r(frame, "a host's request");
  const auto header = r.number<frame_header>();
  const bool wants_sampler = header.kind == static_cast<std::uint32_t>(control::request_sampler);
  if (header.bytes != request_body_bytes ||
      (!wants_sampler && header.kind != static_cast<std::uint32_t>(control::request))) {
    throw malformed_message("it sent something else than a request for a target");
  }
  const auto node = r.number<node_id>();
  target_request request = decode_credentials(frame.subspan(sizeof header + sizeof node));
  request.node = node;
  request.wants_sampler = wants_sampler;
  return request;
}

std::vector<std::byte> encode(const tcp_setup& setup) {
  byte_writer w;
  w.block(encode_credentials(setup.job));
  w.text(setup.server);
  tcp::write_addresses(w, setup.addresses);
  w.number(std::uint32_t{setup.listens ? 1U : 0U});
  return std::move(w).bytes();
}

tcp_setup decode_setup(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "what TCP must know");
  tcp_setup setup;
  setup.job = decode_credentials(r.block());
  setup.server = r.text();
  setup.addresses = tcp::read_addresses(r);
  setup.listens = r.number<std::uint32_t>() != 0;
  if (!r.empty()) throw malformed_message("what TCP must know is followed by something else");
  return setup;
}

server_launcher::known_server& server_launcher::look_up(const target_url& url) {
  const auto [at, is_new] = servers_.try_emplace(url.address);
  known_server& server = at->second;
  if (is_new || server.found.empty()) {
    server.found = tcp::resolve(tcp::parse_server_address(url.address, "the address of a server"));
  }
  if (identity_ || url.has("plain")) return server;
  for (const tcp::socket_address& a : server.found) {
    if (a.is_loopback()) continue;
    throw setting_error(
        "without a key only servers at loopback addresses and Unix sockets are used; " +
        url.address + " needs FARCALL_KEY=FILE, certificates, or plain=yes in " +
        "the URL of a target in a network that you trust");
  }
  return server;
}

server_launcher::server_launcher(const launch_site& site)
    : identity_(make_identity(site.access)), output_(site.output), arrivals_(site.arrivals) {
  for (const target_url& url : site.targets) {
    if (url.scheme == tcp::scheme && !identity_ && !url.has("plain")) (void)look_up(url);
  }
  request_.credentials = tcp::job_credentials::make(identity_ != nullptr ||
                                                    (arrivals_ != 0 && tcp::tls_is_built_in()));
  request_.heartbeat_timeout = site.heartbeat_timeout;
  loop_ = std::make_shared<event_loop>(common_event_loop());
}

std::vector<std::byte> server_launcher::setup(node_id node) const {
  tcp_setup all{
      {request_.credentials.copy(), request_.heartbeat_timeout}, "", {}, node <= arrivals_};
  all.listens = all.listens && node != host_id;
  if (const auto at = server_of_.find(node); at != server_of_.end()) {
    all.server = at->second;
    all.addresses = servers_.at(at->second).addresses;
  }
  return encode(all);
}

std::unique_ptr<port> server_launcher::open_port() {
  listener_ = std::make_shared<tcp::own_listener>(*loop_, request_.credentials.name,
                                                  request_.heartbeat_timeout);
  return tcp::open_rank_port(loop_, listener_,
                             {request_.credentials.copy(), request_.heartbeat_timeout});
}

tcp::admission_request server_launcher::ask(known_server& server, const wanted_target& wanted) {
  tcp::preamble p;
  p.kind = tcp::connection_kind::control;
  p.is_encrypted = identity_ ? 1 : 0;
  p.to = wanted.node;
  p.job = request_.credentials.name;
  return {server.found, wanted.url->address, p};
}

std::unique_ptr<target_process> server_launcher::have_started(known_server& by, unique_fd socket,
                                                              const wanted_target& wanted) {
  by.addresses.clear();
  for (const tcp::socket_address& a : by.found) {
    const bool is_used = a == tcp::peer_address(socket.get());
    by.addresses.insert(is_used ? by.addresses.begin() : by.addresses.end(),
                        tcp::is_own(a) ? tcp::node_address{a.text(), network_}
                                       : tcp::address_in(network_, a));
  }
  tcp::set_options(socket.get(), request_.heartbeat_timeout);
  auto connection =
      identity_ ? tcp::tls_client(std::move(socket), identity_,
                                  tcp::parse_server_address(wanted.url->address, "a server").host)
                : tcp::plain_stream(std::move(socket));
  auto [ours, theirs] = control_socket::make_pair_in_memory();
  const std::string server = wanted.url->place;
  auto link = std::make_shared<relay>(
      *loop_, std::move(theirs), std::move(connection), request_.heartbeat_timeout,
      [server](control_socket& near, const std::string& why) {
        if (why.empty()) return;
        (void)messages::try_send(near,
                                 messages::ended{server + " can no longer be reached: " + why});
      });
  tcp::receive_output(loop_, link, wanted.node, output_);
  target_request request{request_.credentials.copy(), request_.heartbeat_timeout};
  request.node = wanted.node;
  // Make the request the first message over the connection, because the server accepts no other
  // first message.
  link->begin_with(wanted.url->has("sampler") ? control::request_sampler : control::request,
                   encode_request(request));
  link->start();
  server_of_[wanted.node] = wanted.url->address;
  return std::make_unique<remote_process>(std::move(ours), std::move(link), server);
}

// ---- starting many targets ----------------------------------------------------------------------

struct server_launcher::start_under_way {
  wanted_target wanted;
  known_server* server = nullptr;              ///< null if not begun
  std::optional<tcp::admission_request> asked; ///< used until the server admits the connection
  std::unique_ptr<target_process> process;     ///< from then on
  /// True once the target has sent its first message, which shows that the server has read the
  /// request.
  bool is_proved = false;
};

/// All starts of one call of start_all().
class server_launcher::starts {
 public:
  starts(server_launcher& by, std::span<const wanted_target> all)
      : by_(&by), reports_(std::make_shared<unique_fd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
    if (!*reports_) throw_system_error("waiting for servers (descriptor limit?)", errno);
    for (const wanted_target& wanted : all)
      all_.emplace_back().wanted = wanted;
  }

  /// Implements server_launcher::start_all().
  std::vector<std::unique_ptr<target_process>> finish(time_point deadline) {
    for (;;) {
      begin_more();
      if (all_let_in()) break;
      wait(deadline);
    }
    std::vector<std::unique_ptr<target_process>> started;
    for (start_under_way& s : all_)
      started.push_back(std::move(s.process));
    return started;
  }

 private:
  [[nodiscard]] bool all_let_in() const {
    return std::ranges::all_of(all_, [](const start_under_way& s) { return s.process != nullptr; });
  }

  /// Begins as many of the waiting starts as the limit for each server allows.
  void begin_more() {
    for (start_under_way& s : all_) {
      if (s.server != nullptr) continue;
      attempt(s, [&] {
        known_server& server = by_->look_up(*s.wanted.url);
        if (unproved_[&server] == max_starts) return;
        ++unproved_[&server];
        s.server = &server;
        s.asked = by_->ask(server, s.wanted);
        advance(s);
      });
    }
  }

  void advance(start_under_way& s) {
    if (!s.asked->advance(clock::now())) {
      // If the busy server belongs to another user, fail now. This host would refuse to use that
      // server anyway after the wait for it.
      if (s.asked->is_server_busy() && !by_->identity_ &&
          tcp::is_file_of_another_user(s.server->found.front().text())) {
        throw error(tcp::another_users_server);
      }
      return;
    }
    s.process = by_->have_started(*s.server, s.asked->take(), s.wanted);
    s.process->socket().on_arrival([reports = reports_] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(reports->get(), &one, sizeof one);
    });
    s.asked.reset();
  }

  void note_proved(start_under_way& s) {
    s.is_proved = true;
    --unproved_[s.server];
  }

  void wait(time_point deadline) {
    std::vector<pollfd> waiting{{reports_->get(), POLLIN, 0}};
    std::vector<start_under_way*> whose{nullptr};
    time_point next = deadline;
    for (start_under_way& s : all_) {
      if (!s.asked) continue;
      s.asked->watch(waiting);
      next = std::min(next, s.asked->next_poll());
      whose.resize(waiting.size(), &s);
    }
    if (clock::now() >= deadline) fail_late();
    (void)::poll(waiting.data(), waiting.size(), poll_timeout(next));
    std::uint64_t times = 0;
    [[maybe_unused]] const auto got = ::read(reports_->get(), &times, sizeof times);
    const time_point now = clock::now();
    std::set<start_under_way*> ready;
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) ready.insert(whose[i]);
    }
    for (start_under_way& s : all_) {
      if (s.asked && (ready.contains(&s) || s.asked->next_poll() <= now)) {
        attempt(s, [&] { advance(s); });
      } else if (s.process && !s.is_proved && s.process->socket().is_ready()) {
        note_proved(s);
      }
    }
  }

  [[noreturn]] void fail_late() {
    const auto late =
        std::ranges::find_if(all_, [](const start_under_way& s) { return s.asked.has_value(); });
    if (late != all_.end()) attempt(*late, [&] { late->asked->throw_overdue(); });
    const start_under_way& first = *std::ranges::find(all_, nullptr, &start_under_way::server);
    throw start_failed(text_of(first) + "the targets before it on that server have not reported "
                                        "in time (job_options::start_timeout)",
                       first.wanted.node);
  }

  [[nodiscard]] static std::string text_of(const start_under_way& s) {
    return node_text(s.wanted.node) + " (" + s.wanted.url->place + ") cannot be started: ";
  }

  template <class Step>
  void attempt(start_under_way& s, const Step& step) {
    try {
      step();
    } catch (const setting_error&) {
      throw;
    } catch (const error& e) {
      // Forget the addresses, so that the name is looked up again: it may have another address by
      // now.
      if (s.asked) s.server->found.clear();
      throw start_failed(text_of(s) + e.what(), s.wanted.node);
    }
  }

  server_launcher* by_;
  std::shared_ptr<unique_fd> reports_; ///< readable if a target may have sent its first message
  std::vector<start_under_way> all_;
  /// Number of starts on each server whose target has not sent its first message yet.
  std::map<const known_server*, std::size_t> unproved_;
};

std::unique_ptr<target_process> server_launcher::start(node_id node, const target_url& url,
                                                       time_point deadline) {
  const wanted_target one{node, &url};
  return std::move(start_all({&one, 1}, deadline).front());
}

std::vector<std::unique_ptr<target_process>>
server_launcher::start_all(std::span<const wanted_target> all, time_point deadline) {
  return starts(*this, all).finish(deadline);
}

} // namespace farcall
