// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/endpoint.hpp>
#include <farcall/transport/memory_domain.hpp>
#include <farcall/transport/rma_engine.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Interface of transports. A transport makes bytes that are committed in one ring appear, in
/// order, in another. It is called per lane and per iteration of a loop, but not per message,
/// because messages do not pass through this interface. Transports never call upper layers.
namespace farcall {

struct node_memory;

/// Parameters for opening a lane.
struct lane_shape {
  std::uint32_t doorbell = 0; ///< index of our doorbell that the peer's replies notify
  std::uint32_t worker = 0;   ///< number of the peer's worker, whose doorbell our requests notify
  /// True if the peer shall start a worker for this lane alone. The thread of the peer that starts
  /// such workers sleeps on the peer's last doorbell, which is notified when the lane is open.
  bool own_worker = false;
};

/// States whether a peer can be reached, at what cost (lower is better), and the reason in words.
struct reachability {
  bool possible = false;
  unsigned cost = 0;
  std::string reason;
};

/// Properties that all lanes of a transport share.
struct transport_traits {
  std::uint32_t max_record = 0; ///< bytes of the longest record, header included
  /// True if put and get are plain copies, which the caller's processor makes.
  bool shares_memory = false;
};

/// Thrown by transport::open() if all lanes to the peer are in use.
class no_lane_left : public error {
 public:
  using error::error;
};

/// Called after a lane to a node was opened. Wakes the lane's worker, unless the lane gets a worker
/// of its own. Also wakes the thread that sleeps on the node's last doorbell, because that thread
/// accepts lanes while the workers run handlers.
inline void notify_of_lane(doorbell& of_worker, doorbell& last, bool own_worker) noexcept {
  if (!own_worker) notify_if_armed(of_worker);
  notify_if_armed(last);
}

/// Moves bytes between nodes. The comments of the members say which of them must not run at the
/// same time.
class transport {
 public:
  virtual ~transport() = default;

  /// Returns the transport's name in URLs and in the output of `farcall info`, for instance "shm".
  /// Never blocks.
  [[nodiscard]] virtual std::string_view scheme() const noexcept = 0;

  [[nodiscard]] virtual transport_traits traits() const noexcept = 0;

  /// Adds to our card the data with which peers can reach us. Never blocks.
  virtual void describe(card& mine) const = 0;

  /// Returns whether the node with this card can be reached. Both ends compute the same result from
  /// the two cards. Never blocks.
  [[nodiscard]] virtual reachability reachability_of(const card& peer) const = 0;

  /// Returns the address "host:port" of the server that has started the node with this card; empty
  /// if no server has started it. Never blocks. Throws malformed_message.
  [[nodiscard]] virtual std::string server_of(const card& /*peer*/) const { return {}; }

  /// Offers the transport the mapped memory of a peer on this machine. Called before
  /// reachability_of() and admit() for that peer. If the transport uses the memory, it moves the
  /// memory out of `of` and returns true. Called by one thread at a time. Throws error.
  [[nodiscard]] virtual bool take_memory(node_memory& /*of*/) { return false; }

  /// Called once for each peer that has joined and whose route is this transport, before the first
  /// lane to the peer. Other threads may use the transport for other peers during the call. The
  /// card is untrusted. Called by one thread at a time. May block for a name lookup. Throws error.
  virtual void admit(const card& /*peer*/) {}

  /// Handles a message that the peer's transport of the same scheme has sent through the host. If
  /// the sender is no_node, the message is from the process that has started this one. The bytes
  /// are untrusted. Called on a thread of the job, which must not wait for peers in this function.
  /// Throws error, which the caller logs.
  virtual void take_message(node_id /*from*/, std::span<const std::byte> /*bytes*/,
                            std::vector<unique_fd> /*files*/) {}

  /// Opens a lane to `peer`, which must be reachable. The caller owns the endpoint until close().
  /// May make system calls, but does not wait for the peer. Throws no_lane_left if all lanes are in
  /// use, and error if the peer cannot be reached.
  [[nodiscard]] virtual endpoint open(node_id peer, const lane_shape& shape) = 0;

  /// Called after open() has thrown no_lane_left. Returns true if a later call of open() may
  /// succeed, because the peer will give back a lane that this node has closed, or has just given
  /// one back. Never blocks.
  [[nodiscard]] virtual bool is_lane_to_come(node_id /*peer*/) const noexcept { return false; }

  /// Returns a counter that changes whenever accept() may return a new lane. Its values may only be
  /// compared for equality. The counter lives as long as the transport.
  [[nodiscard]] virtual const std::atomic<std::uint32_t>& arrivals() const noexcept = 0;

  /// Returns the next lane that a peer has opened to us, or nullopt if there is none now. The
  /// caller owns the endpoint until the peer closes it or fails. Never blocks. Called by one thread
  /// at a time.
  [[nodiscard]] virtual std::optional<endpoint> accept() = 0;

  /// True if the opener has closed the lane of this accepted endpoint, and all records that it has
  /// sent were read.
  [[nodiscard]] virtual bool is_closed(const endpoint& accepted) const noexcept = 0;

  /// Gives back an endpoint that was opened or accepted. A second call has no effect. Never blocks.
  /// The rings must not be used after the call.
  virtual void close(const endpoint& end) noexcept = 0;

  /// Called when the peer has failed, before the calls to it are ended and before forget(). Ends
  /// the copies that would otherwise wait for the peer. A thread may wait for a copy while it holds
  /// the guard of a lane to the peer, and the thread that ends the calls needs this guard.
  virtual void note_failure(node_id /*peer*/) noexcept {}

  /// Called when the peer has failed. Gives back the lanes that the peer has opened and that
  /// accept() has not returned yet. The caller gives back the other ones with close(). Must not run
  /// at the same time as accept(). Never blocks.
  virtual void forget(node_id peer) noexcept = 0;

  /// Moves the bytes of all lanes. Never blocks, and never runs handlers. Does nothing for
  /// transports whose bytes move by themselves. A thread that uses only one lane calls the driver
  /// of that lane instead.
  virtual void progress() noexcept {}
  /// Calls lane_driver::arm() for all lanes.
  virtual void arm() noexcept {}

  /// Returns the driver of a transport that needs one thread of the program to move all bytes, and
  /// to open the lanes that peers request. That thread polls the driver whenever it waits, even if
  /// it has no lane, and arms the driver before it sleeps. Other threads may also poll and arm the
  /// driver. Returns null if bytes move by themselves, or on a thread of this library. The driver
  /// lives as long as the transport.
  [[nodiscard]] virtual lane_driver* driver() noexcept { return nullptr; }

  /// Returns a descriptor that becomes readable when an armed lane has bytes to move, or when a
  /// peer has opened a lane. The event loop then calls progress(), which must be short and makes
  /// the descriptor unreadable again. Returns -1 if the event loop is not needed, because arriving
  /// bytes and lanes notify the doorbells by themselves. A transport that can only be polled
  /// returns the descriptor of a timer. All calls return the same descriptor. Like libfabric's
  /// FI_WAIT_FD and ucp_worker_get_efd.
  [[nodiscard]] virtual int wait_fd() const noexcept { return -1; }

  /// Returns the allocator by which this process allocates the peers' memory, or null if the peers
  /// allocate it themselves.
  [[nodiscard]] virtual memory_domain* memory() noexcept { return nullptr; }

  /// True if the peers can run the handler with this key. Peers can run all entries of their
  /// function registry, except peers that have only a part of this program's code.
  [[nodiscard]] virtual bool runs_handler(std::uint32_t /*key*/) const noexcept { return true; }
  /// Returns the error text for a call whose handler the peer cannot run. The text follows the
  /// node's name in the message, and has the name `callable` in it. Returns an empty text if the
  /// peer may still know the callable by its name.
  [[nodiscard]] virtual std::string missing_handler_text(const std::string& /*callable*/) const {
    return {};
  }

  /// Called in exit(), after the job has ended, and before this process waits for the other
  /// processes to end. Releases everything that the transport shares with these processes, so that
  /// they need not wait for this process. After this call, only the destructor is called.
  virtual void before_exit() noexcept {}

  /// Returns the engine that copies large amounts of memory, or null if the lanes are the fastest
  /// route.
  [[nodiscard]] virtual farcall::rma_engine* rma_engine() noexcept { return nullptr; }
};

} // namespace farcall
