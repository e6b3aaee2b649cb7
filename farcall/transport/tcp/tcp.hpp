// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/own_listener.hpp>
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

/// Transport over TCP or Unix sockets, encrypted or not.
///
/// Every lane uses a connection of its own, and so does every bulk copy in progress. A node that a
/// server has started is dialled at the server's address; the server then passes the connection on
/// to the node. A node that something other than the host has started accepts connections itself,
/// and so does the host of such nodes. All other nodes can only dial. If the opener of a lane
/// cannot dial its peer, it asks the peer to dial. If the peer cannot dial either, or if dialling
/// has failed, the host dials both nodes and forwards the bytes between them. This does not weaken
/// the security, because the host has the job's key, like all nodes.
namespace farcall::tcp {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;        ///< all node numbers are below it
  std::uint32_t ring_bytes = 0; ///< size of the rings of lanes opened here; a power of two, at
                                ///< least min_ring
  std::string machine;          ///< this machine; see card::machine
  std::string network;          ///< this node's; see network_identity()
  std::string server;           ///< server that has started this node, as the host names it; empty
                                ///< if none has
  std::vector<node_address> addresses; ///< addresses at which this node can be dialled; empty if it
                                       ///< cannot be dialled
  std::span<doorbell> doorbells;       ///< doorbells of this node, which outlive the transport
  std::vector<memory_window> windows;  ///< memory of this node that peers may copy
  job_credentials credentials;
  /// A peer that is silent for longer than this counts as gone.
  std::chrono::milliseconds heartbeat_timeout{0};
  /// Sends `peer` a request by a control message, rather than over a connection of this transport.
  /// Called on any thread; must not block.
  std::function<void(node_id peer, const dial_request&)> ask_to_dial;
  /// Sends `peer` a message about whether a connection's bytes arrive, by the same route as
  /// ask_to_dial. If this function is empty, delivery is not checked.
  std::function<void(node_id peer, const delivery_message&)> tell_of_delivery;
  /// Tells `peer` that this node has given up a connection, or that it refuses a connection which
  /// `peer` has given up. Uses the same route as ask_to_dial. The message may be lost.
  std::function<void(node_id peer, const dial_request&)> tell_of_end;
  /// Tells this node's server that the peer of a connection has proved that it belongs to the job.
  /// The server has passed that connection on to this node. Empty if no server has started this
  /// node. Called on the loop's thread; must not block.
  std::function<void(socket_number)> tell_taken;
  /// Reference that keeps the event loop alive as long as the transport lives; null if the loop has
  /// another owner that lives longer.
  std::shared_ptr<event_loop> loop;
  /// Listener of this process whose connections the transport takes over; null if a server accepts
  /// the connections to this node, or nobody does.
  std::shared_ptr<own_listener> listener;
};

class tcp_transport : public transport {
 public:
  /// Takes over a connection to this node, after the node's server has accepted it and has read its
  /// preamble.
  virtual void take_connection(unique_fd socket) = 0;

  /// Handles a message from `peer` about a connection. The message is a request to make a
  /// connection, a failed request of this node that `peer` returns, or a message about the end of a
  /// connection.
  virtual void take_request(node_id peer, const dial_request& request) = 0;
};

/// Makes the transport. `loop` outlives the transport.
[[nodiscard]] std::unique_ptr<tcp_transport> make(event_loop& loop, options o);

} // namespace farcall::tcp
