#pragma once

#include <farcall/transport/launcher.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/admission_request.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/tcp.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// A target on another machine, as the host asks a server for it.
namespace farcall {

/// The first message of a host on its connection to a server.
struct target_request {
  tcp::job_credentials credentials;
  std::chrono::milliseconds heartbeat_timeout{0};
  node_id node = no_node;     ///< the preamble's can be changed by anybody on the way
  bool wants_sampler = false; ///< in place of the server's program; not among what nodes are told
};

inline constexpr std::size_t request_body_bytes =
    sizeof(node_id) + sizeof(tcp::job_name) + tcp::job_key_bytes + 2 * sizeof(std::uint32_t);
inline constexpr std::size_t request_frame_bytes = sizeof(frame_header) + request_body_bytes;

[[nodiscard]] std::vector<std::byte> encode_request(const target_request& request);
/// Reads the message, header included. Throws malformed_message.
[[nodiscard]] target_request decode_request(std::span<const std::byte> frame);

/// What all nodes of the job are told, and the end of the request's body.
[[nodiscard]] std::vector<std::byte> encode_credentials(const target_request& request);
[[nodiscard]] target_request decode_credentials(std::span<const std::byte> body);

/// In the environment of a server's targets: "host:port" of the server in numbers, with commas
/// between them.
inline constexpr const char* server_addresses_variable = "FARCALL_SERVER_ADDRESSES";

/// What a node's transport must know: the credentials, and where the node can be dialled.
struct tcp_setup {
  target_request job;
  std::string server; ///< "host:port" as the host names it; empty: it has none
  std::vector<tcp::node_address> addresses; ///< the server's, as the host sees them
  bool listens = false;                     ///< it takes connections in itself
};
[[nodiscard]] std::vector<std::byte> encode(const tcp_setup& setup);
/// Throws malformed_message.
[[nodiscard]] tcp_setup decode_setup(std::span<const std::byte> bytes);

/// Has servers start targets: one connection each, which the control socket goes over. Throws
/// setting_error for servers that are not to be trusted without a key. Also takes in processes that
/// come by themselves; then connections between nodes are encrypted where that is built in.
class server_launcher final : public launcher {
 public:
  explicit server_launcher(const launch_site& site);

  /// Blocks until the server has let us in.
  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;
  /// The same of all: the number of ways to a server and back does not grow with their number, up
  /// to 64 on each server.
  [[nodiscard]] std::vector<std::unique_ptr<target_process>>
  start_all(std::span<const wanted_target> all, time_point deadline) override;
  [[nodiscard]] std::vector<std::byte> setup(node_id node) const override;
  [[nodiscard]] std::unique_ptr<port> open_port() override;

  /// What takes in connections to the host; null: nothing does.
  [[nodiscard]] const std::shared_ptr<tcp::own_listener>& listener() const noexcept {
    return listener_;
  }

  /// The host's transport uses it too.
  [[nodiscard]] const std::shared_ptr<tcp::reactor>& loop() const noexcept { return loop_; }

 private:
  /// A server that targets were asked of.
  struct known_server {
    std::vector<tcp::socket_address> found;   ///< by its name
    std::vector<tcp::node_address> addresses; ///< that it is reached at, the one in use first
  };

  /// What its name leads to, looked up once: it may lead elsewhere later. Throws error, and
  /// setting_error for a server that is not to be trusted without a key.
  known_server& look_up(const target_url& url);

  struct start_under_way;
  class starts;

  [[nodiscard]] tcp::admission_request ask(known_server& server, const wanted_target& wanted);
  /// The connection has been let in: the server hears what is wanted, and takes its time.
  [[nodiscard]] std::unique_ptr<target_process> have_started(known_server& by, unique_fd socket,
                                                             const wanted_target& wanted);

  std::shared_ptr<const tcp::tls_identity> identity_;
  target_request request_;
  output_sink* output_; ///< of what targets print; null: nobody's
  std::shared_ptr<tcp::reactor> loop_;
  std::map<std::string, known_server> servers_;    ///< by the addresses in URLs
  std::map<node_id, std::string> server_of_;       ///< the node's
  const std::string network_ = network_identity(); ///< ours
  std::uint32_t arrivals_;                         ///< the nodes from 1 on that come by themselves
  std::shared_ptr<tcp::own_listener> listener_;
};

} // namespace farcall
