// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace farcall::am {

/// Bytes of another node that this process can read: memory that this object keeps mapped, or a
/// copy that it owns.
struct remote_bytes {
  const std::byte* data = nullptr;
  std::unique_ptr<std::byte[]> copy;
  std::shared_ptr<const void> mapping;
};

/// Route to a node.
struct peer_route {
  transport* via;
  std::uint32_t workers; ///< workers of the node
};

/// The nodes of a job, as seen from one of them: the route to each node, and whether the node has
/// failed or refuses calls. Any thread may use it.
class peer_table {
 public:
  /// Function that makes a node known by calling set_route() or set_unreachable() before it
  /// returns. Throws the error that callers of the node get.
  using introducer = std::function<void(node_id, time_point deadline)>;

  /// Makes a table for nodes whose places are below `nodes`. `self` is the number of this node. The
  /// table calls `meet` when an unknown node is used for the first time. `meet` may be null.
  peer_table(node_id self, std::size_t nodes, introducer meet)
      : self_(self), meet_(std::move(meet)), peers_(nodes) {}
  peer_table(const peer_table&) = delete;
  peer_table& operator=(const peer_table&) = delete;
  ~peer_table() = default;

  [[nodiscard]] node_id self() const noexcept { return self_; }
  /// Returns the bound below which the places of all nodes are, also of nodes that join the job
  /// later.
  [[nodiscard]] std::size_t nodes() const noexcept { return peers_.capacity(); }

  // ---- routes; each route is set once, before its first use ----

  /// Sets the route to `node`. The transport `t` outlives the table. `workers` is the number of
  /// workers of that node.
  void set_route(node_id node, transport& t, std::uint32_t workers);
  /// Marks `node` as unreachable, so that calls to it throw error with the text `why`.
  void set_unreachable(node_id node, const std::string& why);

  /// Returns the route to `node`, which the first call finds. Throws error if there is no route,
  /// node_failed if the node has failed or refuses calls, and what the introducer throws.
  [[nodiscard]] peer_route reach(node_id node, time_point deadline);
  /// Returns the transport to a node for which reach() has returned.
  [[nodiscard]] transport& transport_to(node_id node) const noexcept {
    return *peers_.find(node)->via;
  }
  /// Returns the RMA engine for the node's memory, or null if that memory cannot be reached.
  [[nodiscard]] farcall::rma_engine* rma_engine_for(node_id node) const noexcept;
  /// Reads bytes in the memory of `node`. Throws node_failed, error, and malformed_message if the
  /// node named an address range that it does not have.
  [[nodiscard]] remote_bytes read_remote(node_id node, std::uint64_t address, std::uint64_t bytes);

  // ---- failure ----

  /// Marks `node` as failed, even if the node is unknown. From now on failure_of() returns
  /// node_failed with the text `why`. Returns the node in a vector, or an empty vector if the node
  /// had failed before.
  std::vector<node_id> fail(node_id node, const std::string& why);
  /// Marks all known nodes as failed, like fail().
  std::vector<node_id> fail_all(const std::string& why);
  /// Makes the transport end the copies that wait for a failed node.
  void end_copies_of(node_id node) const noexcept;
  [[nodiscard]] bool has_failed(node_id node) const noexcept;
  /// Returns the flag that becomes true if the node fails. The flag lives as long as the table.
  /// Returns null for an unknown node.
  [[nodiscard]] const std::atomic<bool>* failed_flag(node_id node) const noexcept;
  /// Returns the error with which calls to a failed node end, or null while the node is alive.
  [[nodiscard]] std::exception_ptr failure_of(node_id node) const noexcept;

  /// Makes reach() throw node_failed with the text `why`. Returns false if the node is unknown or
  /// refuses calls already.
  bool refuse(node_id node, const std::string& why);
  [[nodiscard]] bool is_refused(node_id node) const noexcept;

 private:
  struct peer {
    // `via`, `workers` and `why_unreachable` are constant once `is_known` is true.
    transport* via = nullptr;
    std::uint32_t workers = 1;
    std::string why_unreachable; ///< why `via` is null
    std::atomic<bool> is_known{false};
    std::atomic<bool> failed{false};
    std::exception_ptr why; ///< error of a failed peer; constant once `failed` is true
    std::atomic<bool> refuses{false};
    /// Error of a peer that refuses calls; constant once `refuses` is true.
    std::exception_ptr why_refused;
  };

  /// Returns the peer; null if the node is unknown.
  [[nodiscard]] peer* known(node_id node) const noexcept {
    peer* const p = peers_.find(node);
    // Acquire, paired with the release stores in set_route() and set_unreachable(), so that the
    // route or the reason is visible.
    return p != nullptr && p->is_known.load(std::memory_order_acquire) ? p : nullptr;
  }
  [[noreturn]] void throw_unreachable(node_id node) const;
  /// Returns failure_of() of a node after a connection to it has ended. If the node has ended, too,
  /// waits until the failure detector has noticed that.
  [[nodiscard]] std::exception_ptr await_failure_of(node_id node) const;
  /// Marks a peer as failed. Returns false if it had failed before. Call with the mutex held.
  static bool mark_failed(node_id node, peer& p, const std::string& why);

  node_id self_;
  introducer meet_;
  node_table<peer> peers_;
  std::mutex mutex_; ///< held by threads that mark nodes as failed or refusing
};

} // namespace farcall::am
