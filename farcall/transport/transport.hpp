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

/// The seam. A transport is whatever makes bytes committed in ring A appear, in order, in ring B.
/// Messages never pass through this interface: it is used per lane and per iteration. Transports
/// never call upward.
namespace farcall {

struct node_memory;

/// What opening a lane asks for.
struct lane_shape {
  std::uint32_t doorbell = 0; ///< index of our doorbell that replies notify
  std::uint32_t worker = 0;   ///< the peer's doorbell that requests notify: number of the worker
  /// The peer shall give the lane a worker of its own. Its last doorbell, that of the thread that
  /// accepts such lanes, is notified once it is open.
  bool own_worker = false;
};

/// Whether a peer can be reached, at what cost (lower is better), and why or why not, in words.
struct reachability {
  bool possible = false;
  unsigned cost = 0;
  std::string reason;
};

/// What is the same for all lanes of a transport.
struct transport_traits {
  std::uint32_t largest_record = 0; ///< bytes, header included
  bool shares_memory = false;       ///< put and get are plain copies by the caller
};

/// transport::open() found all lanes of the peer taken.
class no_lane_left : public error {
 public:
  using error::error;
};

/// A lane to one of a node's workers has arrived: wakes the worker, unless the lane gets one of its
/// own, and the thread of the last doorbell, which accepts lanes while workers run handlers.
inline void notify_of_lane(doorbell& of_worker, doorbell& last, bool own_worker) noexcept {
  if (!own_worker) notify_if_armed(of_worker);
  notify_if_armed(last);
}

/// Moves bytes between nodes. Members say what must not run at the same time.
class transport {
 public:
  virtual ~transport() = default;

  /// Name in URLs and in `farcall info`, e.g. "shm". Never blocks.
  [[nodiscard]] virtual std::string_view scheme() const noexcept = 0;

  [[nodiscard]] virtual transport_traits traits() const noexcept = 0;

  /// Adds to our card what peers need to reach us. Never blocks.
  virtual void describe(card& mine) const = 0;

  /// Whether the node with this card can be reached. Symmetric: both ends get the same result from
  /// the two cards. Never blocks.
  [[nodiscard]] virtual reachability reachability_of(const card& peer) const = 0;

  /// "host:port" of the server that has started the node with this card; empty: none has. Never
  /// blocks. Throws malformed_message.
  [[nodiscard]] virtual std::string server_of(const card& /*peer*/) const { return {}; }

  /// Memory of a peer on this machine, before reachability_of() and admit() for that peer. True
  /// when it was taken; then nothing is left of it. One thread at a time. Throws error.
  [[nodiscard]] virtual bool take_memory(node_memory& /*of*/) { return false; }

  /// The peer has joined, and its route is this transport. Once per peer, before its first lane,
  /// also while others use the transport for other peers; the card may hold anything. One thread at
  /// a time. May block while a name is looked up. Throws error.
  virtual void admit(const card& /*peer*/) {}

  /// What the peer's transport of the same scheme has told us through the host, or, from no_node,
  /// the process that has started this one; hostile. On a thread of the job's own; must not wait
  /// for peers. Throws error, which is logged.
  virtual void take_message(node_id /*from*/, std::span<const std::byte> /*bytes*/,
                            std::vector<unique_fd> /*files*/) {}

  /// Opens a lane to `peer`, which must be reachable. The caller owns the endpoint until close().
  /// May take system calls, does not wait for the peer. Throws no_lane_left, and error when
  /// the peer cannot be reached.
  [[nodiscard]] virtual endpoint open(node_id peer, const lane_shape& shape) = 0;

  /// After no_lane_left: the peer has yet to take back, or has just taken back, a lane that was
  /// closed, and so open() may succeed later. Never blocks.
  [[nodiscard]] virtual bool is_lane_to_come(node_id /*peer*/) const noexcept { return false; }

  /// Changes whenever accept() may have something new; compare for equality only. Lives as long as
  /// the transport.
  [[nodiscard]] virtual const std::atomic<std::uint32_t>& arrivals() const noexcept = 0;

  /// The next lane that a peer has opened to us, if any. The caller owns the endpoint until the
  /// peer closes it or fails. Never blocks. One thread at a time.
  [[nodiscard]] virtual std::optional<endpoint> accept() = 0;

  /// True when the opener of this accepted endpoint has closed it and everything it sent was read.
  [[nodiscard]] virtual bool is_closed(const endpoint& accepted) const noexcept = 0;

  /// Gives an endpoint back, opened or accepted. Idempotent, never blocks. The rings must not be
  /// used afterwards.
  virtual void close(const endpoint& end) noexcept = 0;

  /// The peer has failed: gives back lanes that it was opening and that nobody has accepted.
  /// Accepted ones are given back by close(). Not at the same time as accept(). Never blocks.
  virtual void forget(node_id peer) noexcept = 0;

  /// Moves the bytes of all lanes. Never blocks, never runs handlers. For transports whose bytes
  /// move by themselves: nothing. Users of one lane ask its driver instead.
  virtual void progress() noexcept {}
  /// lane_driver::arm() for all lanes.
  virtual void arm() noexcept {}

  /// Where bytes, and lanes that peers open, move on one thread of the program's alone: what that
  /// thread polls whenever it waits, also without a lane, and arms before it sleeps. Any thread
  /// may. Null: they move by themselves, or on a thread of the node's. As long as the transport
  /// lives.
  [[nodiscard]] virtual lane_driver* driver() noexcept { return nullptr; }

  /// A descriptor that becomes readable when an armed lane has bytes to move, or a peer has opened
  /// one; a thread of the node's then calls progress(), which makes it unreadable again. -1 where
  /// bytes and lanes that arrive notify the doorbells by themselves. A transport that can only be
  /// polled returns a timer's. The same for as long as the transport lives. As libfabric's
  /// FI_WAIT_FD and ucp_worker_get_efd.
  [[nodiscard]] virtual int wait_fd() const noexcept { return -1; }

  /// Memory of the peers that this process hands out, or null where they do so themselves.
  [[nodiscard]] virtual memory_domain* memory() noexcept { return nullptr; }

  /// Whether the peers have code for the handler with that key. All have what is in their function
  /// registry, except those that run a part of this program's code.
  [[nodiscard]] virtual bool runs_handler(std::uint32_t /*key*/) const noexcept { return true; }
  /// What to tell somebody whose call such a peer has no code for: the rest of a sentence that
  /// starts with the node's name and ends with the callable's.
  [[nodiscard]] virtual std::string missing_handler_text(const std::string& /*callable*/) const {
    return {};
  }

  /// The job is over, and this process is at exit(), where it waits for the others' processes to
  /// end: what the transport shares with them is let go, so that it keeps nobody. Nothing is asked
  /// of it any more, but to be destroyed.
  virtual void before_exit() noexcept {}

  /// Copies bulk memory, or null when nothing is faster than the lanes.
  [[nodiscard]] virtual farcall::rma_engine* rma_engine() noexcept { return nullptr; }
};

} // namespace farcall
