#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/ring.hpp>

#include <cstdint>

/// What a transport hands out for a lane: two rings, and what moves their bytes.
namespace farcall {

/// Carries the bytes of a lane whose ends do not share memory: from the outbox to the peer, and
/// from the peer into the inbox. Lanes may have one driver in common, as where a network's own
/// worker moves the bytes of all. All members may be called by several threads at once; none
/// blocks, and none runs handlers.
class lane_driver {
 public:
  /// Sends what was committed and takes in what has arrived, on all lanes of the driver.
  virtual void progress() noexcept = 0;

  /// The lane's user is about to sleep on its doorbell: from now on until the next record arrives
  /// the transport polls by itself, and notifies the doorbell. Call between arm() of the doorbell
  /// and the second poll.
  virtual void arm() noexcept = 0;

 protected:
  ~lane_driver() = default;
};

/// One end of a lane: two rings, and where it leads. The rings stay valid until close().
struct endpoint {
  outbox out;
  inbox in;
  node_id peer = no_node;
  std::uint32_t worker = 0;
  bool own_worker = false;
  bool takes_long = true;  ///< the peer can fetch arguments that do not fit a record
  bool takes_stops = true; ///< the peer can be told of calls that are stopped
  std::uint64_t id = 0;    ///< for close(); unique per transport and end
  /// Null where the two rings are the peer's own. Valid until close().
  lane_driver* driver = nullptr;
};

/// In a child of a fork: nothing goes out by this copy of an end, and nothing comes in. The peer,
/// and the parent's end, are not concerned.
inline void disconnect(endpoint& end) noexcept {
  close(end.out);
  close(end.in);
  end.driver = nullptr;
}

} // namespace farcall
