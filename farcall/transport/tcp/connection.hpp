// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Functions that make a connection between two nodes: dial() at the dialling end, and
/// receive_connect_request() at the accepting end. Any thread may call them. Each callback is
/// called once, on the loop's thread unless a comment names another thread.
namespace farcall::tcp {

/// Secrets that protect the connections of a job.
struct connection_security {
  std::shared_ptr<const job_credentials> credentials;
  std::shared_ptr<const tls_identity> identity; ///< null if connections are not encrypted
};

/// Callback of dial(): gets the connection, and the signed request, which must be sent first over
/// the connection. If no connection could be made, gets null and the reason.
using dialled =
    std::function<void(std::unique_ptr<stream>, const connect_request&, const std::string& why)>;

/// Connects to the node that the request names. Tries the addresses `where` in the order of
/// connect_attempts, and uses the first address at which a process proves that it is that node.
/// Gives up at `deadline`.
void dial(event_loop& loop, std::vector<socket_address> where, connection_security security,
          const connect_request& request, std::chrono::milliseconds heartbeat_timeout,
          time_point deadline, dialled done);

/// Callback for a connection that a node of the job has made to this node. If the connection
/// failed, the callback gets null and the reason. An empty reason means that the peer has closed or
/// reset the connection before its request, as peers do when their job ends.
using arrived =
    std::function<void(std::unique_ptr<stream>, const connect_request&, const std::string& why)>;

/// Function that refuses a connection whose request is not complete yet. The reason is passed to
/// the callback `arrived`. Any thread may call the function; `arrived` then runs on the calling
/// thread.
using refusal = std::function<void(const std::string& why)>;

/// Takes over a connection to node `self`, after the caller has read its preamble. The peer must
/// prove before `deadline` that it belongs to the job.
refusal receive_connect_request(event_loop& loop, unique_fd socket, connection_security security,
                                node_id self, time_point deadline, arrived done);
/// Does the same as the function above for a connection that is already a stream. The stream must
/// be encrypted if the job's connections are encrypted.
refusal receive_connect_request(event_loop& loop, std::unique_ptr<stream> connection,
                                connection_security security, node_id self, time_point deadline,
                                arrived done);

} // namespace farcall::tcp
