// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/ring.hpp>

#include <cstdint>

/// The end of a lane that a transport gives to its users: two rings, and the driver that moves the
/// bytes of these rings.
namespace farcall {

/// Moves the bytes of a lane whose ends do not share memory: from the outbox to the peer, and from
/// the peer into the inbox. Several lanes may share one driver, for instance if one network worker
/// moves the bytes of all lanes. Any thread may call any member at any time. The members
/// neither block nor run handlers.
class lane_driver {
 public:
  /// Sends committed bytes and receives arrived ones, on all lanes of the driver.
  virtual void progress() noexcept = 0;

  /// Called by the lane's user before it sleeps on its doorbell. The user first arms the doorbell,
  /// then calls this function, and then polls once more. From this call until the next record
  /// arrives, the transport polls in the user's place, and notifies the doorbell.
  virtual void arm() noexcept = 0;

 protected:
  ~lane_driver() = default;
};

/// An end of a lane: two rings, the peer, and the worker that serves the lane. The rings stay
/// valid until close().
struct endpoint {
  outbox out;
  inbox in;
  node_id peer = no_node;
  std::uint32_t worker = 0;
  bool own_worker = false;
  bool takes_long = true;  ///< true if the peer can fetch arguments that are too long for a record
  bool takes_stops = true; ///< true if the peer handles requests to stop a call
  std::uint64_t id = 0;    ///< identifies this end in close(); unique within its transport
  /// Driver that moves the bytes of the two rings. Null if the rings are in memory that the peer
  /// also uses, so that no bytes need to be moved. Valid until close().
  lane_driver* driver = nullptr;
};

/// Disables this copy of an end in a child process after a fork, so that the child sends and
/// receives nothing more. The peer and the parent's copy are not affected.
inline void disconnect(endpoint& end) noexcept {
  close(end.out);
  close(end.in);
  end.driver = nullptr;
}

} // namespace farcall
