#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/tcp.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// A target on another machine, as the host asks a server for it.
namespace farcall {

/// The first message of a host on its connection to a server.
struct target_request {
  tcp::job_credentials credentials;
  std::chrono::milliseconds liveness{0};
};

inline constexpr std::size_t request_body_bytes =
    sizeof(tcp::job_name) + tcp::job_secret_bytes + 2 * sizeof(std::uint32_t);
inline constexpr std::size_t request_frame_bytes = sizeof(frame_header) + request_body_bytes;

/// Reads the message, header included. Throws malformed_message.
[[nodiscard]] target_request decode_request(std::span<const std::byte> frame);

/// What all nodes of the job are told, the body of control::credentials; the same bytes as the
/// request's body.
[[nodiscard]] std::vector<std::byte> encode_credentials(const target_request& request);
[[nodiscard]] target_request decode_credentials(std::span<const std::byte> body);

/// Connects to the server of `url` and asks for a target, which becomes node `node`. Returns our
/// end of its control socket, and what lengthens it. Blocks until the server has let us in. Throws
/// start_failed with the reason.
[[nodiscard]] std::pair<control_socket, std::shared_ptr<relay>>
start_remote_target(tcp::reactor& loop, const target_url& url, node_id node,
                    const target_request& request,
                    const std::shared_ptr<const tcp::tls_identity>& identity, time_point deadline);

} // namespace farcall
