#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farcall::detail {

struct job_state;

/// What nodes of a job of equals do together.
enum class collective : std::uint8_t { barrier, all_gather, broadcast, end };

/// The collectives of a job of equals, on one node. All nodes make the same ones in the same order,
/// so their number says which of them a message is for. Messages are posted calls; those that come
/// before this node is as far are kept.
///
/// One thread makes collectives; take() and note_failure() may be called by any.
class collectives {
 public:
  /// Hensgen, Finkel and Manber: in round k, each node tells the one 2^k behind it.
  void barrier(job_state& job, time_point deadline);
  /// The same where the job ends, so that a node that calls something else is told so.
  void end(job_state& job);
  /// Bruck et al.: in round k, each node sends what it has to the one 2^k behind it.
  void all_gather(job_state& job, std::span<const std::byte> mine, std::span<std::byte> all,
                  time_point deadline);
  /// A binomial tree.
  void broadcast(job_state& job, std::span<std::byte> bytes, node_id root, time_point deadline);

  /// Says which collective a message is of, as its sender sees it. All of it is sent.
  struct label {
    std::uint64_t number = 0;
    std::uint64_t history = 0; ///< a hash of what this and all before it are
    node_id from = no_node;
    node_id root = no_node; ///< of a broadcast
    std::uint32_t round = 0;
    collective kind{};
    std::uint8_t unused[3]{};
  };

  /// A message of a collective has arrived.
  void take(const label& of, std::span<const std::byte> bytes);
  /// A node has failed, the last of those that have.
  void note_failure(node_id node) noexcept {
    // Release; partner: the acquire load in receive().
    failed_.store(node, std::memory_order_release);
  }

 private:
  struct message {
    label of;
    std::vector<std::byte> bytes;
  };
  using place = std::pair<std::uint64_t, std::uint32_t>; ///< number and round

  /// The next collective begins. Throws error after one that has failed.
  void begin(collective kind, node_id root);
  void disseminate(job_state& job, time_point deadline);
  template <class Body>
  void run(job_state& job, collective kind, node_id root, const Body& body);
  /// Throws error if the message belongs to a collective that this node does not call.
  void require_same(const job_state& job, const label& of) const;
  /// Throws error if there is a message that no collective of this node has taken.
  void require_all_taken(const job_state& job);
  void send(job_state& job, node_id to, std::uint32_t round, std::span<const std::byte> bytes,
            time_point deadline) const;
  [[nodiscard]] message receive(job_state& job, node_id from, std::uint32_t round,
                                time_point deadline);
  [[nodiscard]] bool has_failed() const noexcept {
    // Acquire; partner: the release store in note_failure().
    return failed_.load(std::memory_order_acquire) != no_node;
  }

  label present_;          ///< the collective that runs; without a round
  std::string why_broken_; ///< why there can be no more; empty: there can
  std::mutex mutex_;
  std::map<place, message> arrived_; ///< mutex_
  std::atomic<node_id> failed_{no_node};
};

} // namespace farcall::detail
