#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
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

/// A connection, or null and the reason.
using dialled = std::function<void(std::unique_ptr<stream>, const std::string& why)>;

/// Connects to the first of `where` that replies, and sends the preamble. `identity` is null for an
/// unencrypted connection. Does not wait until the other side agrees.
void dial(reactor& loop, std::vector<socket_address> where, const preamble& first,
          std::shared_ptr<const tls_identity> identity, std::chrono::milliseconds heartbeat_timeout,
          dialled done);

/// A connection whose connect request was read, and is not checked yet; null and the reason
/// otherwise. No reason: the other side has ended it before, as one does whose job has ended.
using arrived =
    std::function<void(std::unique_ptr<stream>, const connect_request&, const std::string& why)>;

/// Ends a connection that has not arrived yet, for that reason. Any thread.
using refusal = std::function<void(const std::string& why)>;

/// Takes over a connection whose preamble was read. The other side has until `deadline` to prove
/// itself.
refusal receive_connect_request(reactor& loop, unique_fd socket,
                                std::shared_ptr<const tls_identity> identity, time_point deadline,
                                arrived done);

} // namespace farcall::tcp
