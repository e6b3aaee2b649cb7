// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/admission_request.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
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

/// A target that a server starts for the host on another machine.
namespace farcall {

/// First message that a host sends on its connection to a server.
struct target_request {
  tcp::job_credentials credentials;
  std::chrono::milliseconds heartbeat_timeout{0};
  /// Node that the server shall start. On an encrypted connection, a forwarder cannot change this
  /// number; it could change preamble::to, which is never encrypted.
  node_id node = no_node;
  /// True if the server shall start a sampler in place of its program. The kind of the message
  /// tells this to the server. Nodes do not get this value.
  bool wants_sampler = false;
};

inline constexpr std::size_t request_body_bytes =
    sizeof(node_id) + sizeof(tcp::job_name) + tcp::job_key_bytes + 2 * sizeof(std::uint32_t);
inline constexpr std::size_t request_frame_bytes = sizeof(frame_header) + request_body_bytes;

[[nodiscard]] std::vector<std::byte> encode_request(const target_request& request);
/// Reads the message, which begins with its header. Throws malformed_message.
[[nodiscard]] target_request decode_request(std::span<const std::byte> frame);

/// Encodes the credentials and the heartbeat timeout in the form in which they are sent to all
/// nodes of the job. The body of a request ends with the same bytes.
[[nodiscard]] std::vector<std::byte> encode_credentials(const target_request& request);
[[nodiscard]] target_request decode_credentials(std::span<const std::byte> body);

/// Environment variable for the targets of a server. It holds the server's numeric addresses
/// "host:port", separated by commas.
inline constexpr const char* server_addresses_variable = "FARCALL_SERVER_ADDRESSES";

/// Setup data for a node's transport: the job's credentials, and the addresses at which the node
/// can be dialled.
struct tcp_setup {
  target_request job;
  std::string server; ///< server's "host:port", as the host names it; empty if the node has no
                      ///< server
  std::vector<tcp::node_address> addresses; ///< addresses at which the host reaches the server
  bool listens = false;                     ///< true if the node accepts connections itself
};
[[nodiscard]] std::vector<std::byte> encode(const tcp_setup& setup);
/// Throws malformed_message.
[[nodiscard]] tcp_setup decode_setup(std::span<const std::byte> bytes);

/// Asks servers to start targets. One connection for each target carries the target's control
/// socket. Throws setting_error if a server may not be used without a key. The launcher also
/// accepts processes that something other than the host has started; connections between nodes are
/// then encrypted if TLS is built in.
class server_launcher final : public launcher {
 public:
  explicit server_launcher(const launch_site& site);

  /// Asks the server to start a target. Blocks until the server has admitted the connection.
  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;
  /// Starts several targets at once. Starting up to 64 targets on each server takes no more round
  /// trips than starting one.
  [[nodiscard]] std::vector<std::unique_ptr<target_process>>
  start_all(std::span<const wanted_target> all, time_point deadline) override;
  [[nodiscard]] std::vector<std::byte> setup(node_id node) const override;
  [[nodiscard]] std::unique_ptr<port> open_port() override;

  /// Returns the listener for connections to the host, or null if there is none.
  [[nodiscard]] const std::shared_ptr<tcp::own_listener>& listener() const noexcept {
    return listener_;
  }

  /// Returns the event loop, which the host's transport uses, too.
  [[nodiscard]] const std::shared_ptr<event_loop>& loop() const noexcept { return loop_; }

 private:
  /// A server that this host has asked for targets.
  struct known_server {
    std::vector<tcp::socket_address> found;   ///< addresses of its name
    std::vector<tcp::node_address> addresses; ///< addresses at which the server is reached; the
                                              ///< first is in use
  };

  /// Returns the server that the URL names. The addresses of its name are looked up once and kept,
  /// because the name may have other addresses later. They are looked up again after a start on the
  /// server has failed. Throws error, and setting_error if the server may not be used without a
  /// key.
  known_server& look_up(const target_url& url);

  struct start_under_way;
  class starts;

  [[nodiscard]] tcp::admission_request ask(known_server& server, const wanted_target& wanted);
  /// Sends the request over a connection that the server has admitted. Does not wait until the
  /// target has started.
  [[nodiscard]] std::unique_ptr<target_process> have_started(known_server& by, unique_fd socket,
                                                             const wanted_target& wanted);

  std::shared_ptr<const tcp::tls_identity> identity_;
  target_request request_;
  output_sink* output_; ///< sink of the targets' output, or null if there is none
  std::shared_ptr<event_loop> loop_;
  std::map<std::string, known_server> servers_;    ///< servers by the addresses that URLs give
  std::map<node_id, std::string> server_of_;       ///< server of each node
  const std::string network_ = network_identity(); ///< this machine's network
  std::uint32_t arrivals_;                         ///< nodes 1 to arrivals_ were started by
                                                   ///< something other than the host
  std::shared_ptr<tcp::own_listener> listener_;
};

} // namespace farcall
