#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/rank_port.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace farcall {
namespace {

constexpr std::chrono::milliseconds shortest_heartbeat_timeout{
    settings::row("heartbeat-timeout-ms").low};
constexpr std::chrono::milliseconds longest_heartbeat_timeout{
    settings::row("heartbeat-timeout-ms").high};

/// Exactly one admission. Throws error.
tcp::admission receive_admission(int socket, time_point deadline) {
  tcp::admission_message m;
  std::size_t have = 0;
  while (have < sizeof m) {
    pollfd waiting{socket, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) throw error("it takes connections and does not answer");
    const ssize_t got =
        ::recv(socket, reinterpret_cast<std::byte*>(&m) + have, sizeof m - have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) throw_system_error("it has cut the connection", errno);
    if (got == 0) throw error("it ended the connection; is it a server of farcall?");
    have += static_cast<std::size_t>(got);
  }
  if (m.magic != tcp::preamble_magic) throw error("it is no server of farcall");
  if (m.version != tcp::connection_version) return tcp::admission::other_version;
  return m.word;
}

/// The server watches the process; its end is that of the socket.
class remote_process final : public target_process {
 public:
  remote_process(control_socket socket, std::shared_ptr<relay> link, std::string server)
      : link_(std::move(link)) {
    set(std::move(socket), std::move(server));
  }

  bool is_near() const noexcept override { return false; }

  std::string end_text(const std::string& last_words) override {
    return " (" + program() +
           "): " + (last_words.empty() ? "the connection to its server has ended" : last_words);
  }

  std::string silence_text(const char* what) override {
    return std::string(" did not ") + what +
           " in time; does the server run a farcall program that makes a farcall::job early in "
           "main()?";
  }

  /// Its server does it.
  void kill() noexcept override { socket().close(); }

 private:
  std::shared_ptr<relay> link_; ///< lengthens the socket
};

} // namespace

std::vector<std::byte> encode_credentials(const target_request& request) {
  byte_writer w;
  w.number(request.credentials.name);
  std::array<std::byte, tcp::job_key_bytes> key{};
  std::memcpy(key.data(), request.credentials.key.bytes().data(), key.size());
  w.number(key);
  ::explicit_bzero(key.data(), key.size());
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
  ::explicit_bzero(key.data(), key.size());
  request.credentials.is_encrypted = r.number<std::uint32_t>() != 0;
  request.heartbeat_timeout = std::chrono::milliseconds(r.number<std::uint32_t>());
  if (request.heartbeat_timeout < shortest_heartbeat_timeout ||
      request.heartbeat_timeout > longest_heartbeat_timeout || !r.empty()) {
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
    server.found = tcp::resolve(tcp::parse_address(url.address, "the address of a server"));
  }
  if (identity_ || url.has("plain")) return server;
  for (const tcp::socket_address& a : server.found) {
    if (a.is_loopback()) continue;
    throw setting_error("without a key only servers at loopback addresses are used; " +
                        url.address + " needs FARCALL_KEY=FILE, certificates, or plain=yes in " +
                        "the URL of a target in a network that you trust");
  }
  return server;
}

unique_fd server_launcher::connect(known_server& to, const std::string& name, time_point deadline) {
  unique_fd socket;
  try {
    socket = tcp::connect_to_first(to.found, name, deadline);
  } catch (const error&) {
    // It may have moved, and be asked for again.
    to.found.clear();
    throw;
  }
  to.addresses.clear();
  for (const tcp::socket_address& a : to.found) {
    const bool is_used = a == tcp::peer_address(socket.get());
    to.addresses.insert(is_used ? to.addresses.begin() : to.addresses.end(),
                        tcp::address_in(network_, a));
  }
  return socket;
}

server_launcher::server_launcher(const launch_site& site)
    : identity_(make_identity(site.access)), output_(site.output), arrivals_(site.arrivals) {
  for (const target_url& url : site.targets) {
    if (url.scheme == "tcp" && !identity_ && !url.has("plain")) (void)look_up(url);
  }
  request_.credentials = tcp::job_credentials::make(identity_ != nullptr ||
                                                    (arrivals_ != 0 && tcp::tls_is_built_in()));
  request_.heartbeat_timeout = site.heartbeat_timeout;
  loop_ = std::make_shared<tcp::reactor>("farcall-tcp");
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

std::unique_ptr<target_process> server_launcher::start(node_id node, const target_url& url,
                                                       time_point deadline) {
  const std::string server = "tcp://" + url.address;
  try {
    unique_fd socket = connect(look_up(url), url.address, deadline);
    tcp::set_options(socket.get(), request_.heartbeat_timeout);
    tcp::preamble p;
    p.kind = tcp::connection_kind::control;
    p.is_encrypted = identity_ ? 1 : 0;
    p.to = node;
    p.job = request_.credentials.name;
    if (::send(socket.get(), &p, sizeof p, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof p)) {
      throw_system_error("it has cut the connection", errno);
    }
    const tcp::admission word = receive_admission(socket.get(), deadline);
    if (word != tcp::admission::come_in) throw error(tcp::refusal_text(word));
    auto connection = identity_ ? tcp::tls_client(std::move(socket), identity_,
                                                  tcp::parse_address(url.address, "a server").host)
                                : tcp::plain_stream(std::move(socket));
    auto [ours, theirs] = control_socket::make_pair();
    auto link = std::make_shared<relay>(
        *loop_, std::move(theirs), std::move(connection), request_.heartbeat_timeout,
        [server](control_socket& near, const std::string& why) {
          if (why.empty()) return;
          (void)messages::try_send(near,
                                   messages::ended{server + " can no longer be reached: " + why});
        });
    tcp::receive_output(loop_, link, node, output_);
    target_request request{request_.credentials.copy(), request_.heartbeat_timeout};
    request.node = node;
    // A server takes whoever begins with something else for no host.
    link->begin_with(url.has("sampler") ? control::request_sampler : control::request,
                     encode_request(request));
    link->start();
    server_of_[node] = url.address;
    return std::make_unique<remote_process>(std::move(ours), std::move(link), server);
  } catch (const setting_error&) {
    throw;
  } catch (const error& e) {
    throw start_failed(node_text(node) + " (" + server + ") cannot be started: " + e.what(), node);
  }
}

} // namespace farcall
