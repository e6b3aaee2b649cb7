#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/own_listener.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>
#include <farcall/transport/transport.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Nodes that reach each other by TCP, encrypted or not.
///
/// Every lane is a connection, and so is every bulk copy under way. Nodes that were started by a
/// server can be dialled at the server's address, which hands the connection on. Those that came to
/// the host by themselves, and then the host, listen themselves. All others dial.
/// Where the opener of a lane cannot dial the peer, it asks the peer to dial. Where that cannot
/// either, or has tried in vain, the host dials both, and passes on what comes: it knows the job's
/// secret, as all do.
namespace farcall::tcp {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;        ///< numbers of nodes are below it
  std::uint32_t ring_bytes = 0; ///< of lanes that we open; a power of two, at least smallest_ring
  std::string machine;          ///< ours; see card::machine
  std::string network;          ///< ours; see network_identity()
  std::string server;           ///< that has started us, as our host names it; empty: none
  std::vector<node_address> addresses; ///< where we can be dialled; none: nowhere
  std::span<doorbell> doorbells;       ///< of this node; outlive the transport
  std::vector<memory_window> windows;  ///< memory here that peers may copy
  job_credentials credentials;
  std::chrono::milliseconds heartbeat_timeout{0}; ///< a peer that is silent for longer is gone
  /// Passes a request on to a peer, past this transport. On any thread; must not block.
  std::function<void(node_id peer, const dial_request&)> ask_to_dial;
  /// Passes a message about a connection on to a peer, in the same way. Connections are checked if
  /// there is one.
  std::function<void(node_id peer, const delivery_message&)> tell_of_delivery;
  /// Tells a peer of a connection that has ended, in the same way. The message may get lost.
  std::function<void(node_id peer, const dial_request&)> tell_of_end;
  /// Tells our server of a connection that it has handed on, once that has proved itself; empty: no
  /// server has started us. On the reactor's thread; must not block.
  std::function<void(socket_number)> tell_taken;
  std::shared_ptr<reactor> loop;          ///< whose last user the transport may be; else null
  std::shared_ptr<own_listener> listener; ///< takes in what is dialled there; null: a server does
};

class tcp_transport : public transport {
 public:
  /// A connection for us has come to our server, which has read its preamble.
  virtual void take_connection(unique_fd socket) = 0;

  /// A peer that cannot dial us wants a connection, or gives back what we have asked it for.
  virtual void take_request(node_id peer, const dial_request& request) = 0;
};

/// `loop` outlives the transport.
[[nodiscard]] std::unique_ptr<tcp_transport> make(reactor& loop, options o);

} // namespace farcall::tcp
