// SPDX-License-Identifier: Apache-2.0
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

/// Kinds of collectives of a job of equals. `end` is the barrier when the job ends.
enum class collective : std::uint8_t { barrier, all_gather, broadcast, end };

/// The collectives of a job of equals, as one node executes them. All nodes call the same
/// collectives in the same order, so that the number of a collective identifies it in messages. The
/// messages are calls without a reply. If a message arrives before this node has called the
/// collective, it is kept until then.
///
/// One thread calls collectives; any thread may call take() and note_failure().
class collectives {
 public:
  /// Waits until all nodes have called barrier(). Uses the algorithm of Hensgen, Finkel and Manber:
  /// in round k, each node sends a message to the node that comes 2^k places after it.
  void barrier(job_state& job, time_point deadline);
  /// Waits like barrier(), at the end of the job. A node that calls a different collective at that
  /// time gets an error.
  void end(job_state& job);
  /// Gives every node the bytes of all nodes. Uses the algorithm of Bruck et al.: in round k, each
  /// node sends the bytes that it has so far to the node that comes 2^k places after it.
  void all_gather(job_state& job, std::span<const std::byte> mine, std::span<std::byte> all,
                  time_point deadline);
  /// Gives every node the bytes of the root, along a binomial tree.
  void broadcast(job_state& job, std::span<std::byte> bytes, node_id root, time_point deadline);

  /// Tells to which collective a message belongs, as its sender sees it. Each message contains a
  /// copy of these bytes.
  struct label {
    std::uint64_t number = 0;
    std::uint64_t history = 0; ///< hash of the kinds and roots of this collective and all earlier
                               ///< ones
    node_id from = no_node;
    node_id root = no_node; ///< root of a broadcast
    std::uint32_t round = 0;
    collective kind{};
    std::uint8_t unused[3]{};
  };

  /// Stores a message that has arrived, until a collective of this node takes it.
  void take(const label& of, std::span<const std::byte> bytes);
  /// Records that a node has failed. Keeps only the number of the last one.
  void note_failure(node_id node) noexcept {
    // Release, paired with the acquire load in has_failed(), so that all writes before this note
    // are visible there.
    failed_.store(node, std::memory_order_release);
  }

 private:
  struct message {
    label of;
    std::vector<std::byte> bytes;
  };
  using place = std::pair<std::uint64_t, std::uint32_t>; ///< number of the collective, and round in
                                                         ///< it

  /// Begins the next collective. Throws error if an earlier collective has failed.
  void begin(collective kind, node_id root);
  void disseminate(job_state& job, time_point deadline);
  template <class Body>
  void run(job_state& job, collective kind, node_id root, const Body& body);
  /// Throws error if the message does not belong to the collective that this node executes.
  void require_same(const job_state& job, const label& of) const;
  /// Throws error if a message of the current collective, or of an earlier one, is still stored at
  /// the end of the collective.
  void require_all_taken(const job_state& job);
  void send(job_state& job, node_id to, std::uint32_t round, std::span<const std::byte> bytes,
            time_point deadline) const;
  [[nodiscard]] message receive(job_state& job, node_id from, std::uint32_t round,
                                time_point deadline);
  [[nodiscard]] bool has_failed() const noexcept {
    // Acquire, paired with the release store in note_failure(), so that all writes before the note
    // are visible.
    return failed_.load(std::memory_order_acquire) != no_node;
  }

  label present_;          ///< label of the current collective; its round is unused
  std::string why_broken_; ///< reason why no further collective is possible; empty if one is
  std::mutex mutex_;
  std::map<place, message> arrived_; ///< guarded by mutex_
  std::atomic<node_id> failed_{no_node};
};

} // namespace farcall::detail
