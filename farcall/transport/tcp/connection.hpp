#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// How a connection between two nodes comes about, on either end. Everything runs on the reactor's
/// thread; each callback is called once.
namespace farcall::tcp {

/// What the connections of a job are protected by.
struct connection_security {
  std::shared_ptr<const job_credentials> credentials;
  std::shared_ptr<const tls_identity> identity; ///< null: they are not encrypted
};

/// A connection, and what goes over it first: the request, signed. Or null and the reason.
using dialled =
    std::function<void(std::unique_ptr<stream>, const connect_request&, const std::string& why)>;

/// Connects to the node that the request names, by the first of `where` at which a process proves
/// that it is that node, until `deadline`.
void dial(reactor& loop, std::vector<socket_address> where, connection_security security,
          const connect_request& request, std::chrono::milliseconds heartbeat_timeout,
          time_point deadline, dialled done);

/// A connection of one who belongs to the job, and is for this node; null and the reason otherwise.
/// No reason: the other side has ended it before, as one does whose job has ended.
using arrived =
    std::function<void(std::unique_ptr<stream>, const connect_request&, const std::string& why)>;

/// Ends a connection that has not arrived yet, for that reason. Any thread.
using refusal = std::function<void(const std::string& why)>;

/// Takes over a connection to node `self` whose preamble was read. The other side has until
/// `deadline` to prove itself.
refusal receive_connect_request(reactor& loop, unique_fd socket, connection_security security,
                                node_id self, time_point deadline, arrived done);
/// The same of a connection that is encrypted already if connections are.
refusal receive_connect_request(reactor& loop, std::unique_ptr<stream> connection,
                                connection_security security, node_id self, time_point deadline,
                                arrived done);

} // namespace farcall::tcp
