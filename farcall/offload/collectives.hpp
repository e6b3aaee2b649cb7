// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/offload/reduction.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace farcall::detail {

struct job_state;
class incoming;

/// Kinds of collectives of a job of equals. `end` is the barrier when the job ends.
enum class collective : std::uint8_t {
  barrier,
  all_gather,
  broadcast,
  end,
  reduce,
  all_reduce,
  scan
};
/// The last kind in the enumeration.
inline constexpr collective last_collective = collective::scan;
/// Returns the name of a kind with its article, for errors.
[[nodiscard]] std::string name_of(collective kind);

/// The collectives of a job of equals, as one node executes them. All nodes call the same
/// collectives in the same order, so that the number of a collective identifies it in messages. The
/// messages are calls without a reply. If a message arrives before this node has called the
/// collective, it is kept until then. If a collective fails on a node, the node tells the reason to
/// all others, which then do not wait for it.
///
/// Nodes that execute different collectives may all wait for each other, and get no message that
/// shows it. So a node that has waited for a while sends its label to the node that it waits for,
/// which compares the label with its own of the same number. In a circle of nodes that wait, two
/// neighbours differ, because the algorithms do not deadlock.
///
/// One thread calls collectives; any thread may call take(), take_label(), take_failure() and
/// note_failure().
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

  /// Combines the elements of all nodes, like the next two functions; see reductions.cpp for the
  /// algorithms. `mine` and the result of reduce() are the same memory or do not overlap. On nodes
  /// other than the root, the result of reduce() is empty. After an error, results are undefined.
  void reduce(job_state& job, std::span<const std::byte> mine, std::span<std::byte> result,
              const reduction& how, node_id root, time_point deadline);
  void all_reduce(job_state& job, std::span<std::byte> values, const reduction& how,
                  time_point deadline);
  void scan(job_state& job, std::span<std::byte> values, const reduction& how, time_point deadline);

  /// Description of a message: the collective to which it belongs, as its sender sees it, and its
  /// place there. Each message contains a copy of these bytes.
  struct label {
    std::uint64_t number = 0;
    std::uint64_t history = 0;    ///< hash of the kinds, roots, sizes and operations of this
                                  ///< collective and all earlier ones
    std::uint64_t before = 0;     ///< the history without this collective
    std::uint64_t size = 0;       ///< bytes that each node gives to a reduction
    std::uint64_t round_size = 0; ///< sum of the bytes of all messages of this round
    node_id from = no_node;
    node_id root = no_node;  ///< root of a broadcast or reduction
    std::uint32_t round = 0; ///< a round has one sender and one receiver
    std::uint32_t piece = 0; ///< number of the message in its round
    collective kind{};
    operation_code operation{}; ///< of a reduction
    std::uint8_t type = 0;      ///< type_code of a reduction's elements
    std::uint8_t unused = 0;
    std::uint32_t element_size = 0; ///< of a reduction; the maximum for larger elements
  };

  /// Stores a message that has arrived, until a collective of this node takes it. If a collective
  /// waits for the message, passes the bytes to it without a copy.
  void take(const label& of, std::span<const std::byte> bytes);
  /// Compares the label of a node that waits for this one with this node's own. If they differ, the
  /// current collective fails, or the next one.
  void take_label(job_state& job, const label& of);
  /// Stores the reason for which a collective has failed on another node.
  void take_failure(const label& of, std::span<const std::byte> why);
  /// Records that a node has failed. Keeps only the number of the last one.
  void note_failure(node_id node) noexcept {
    // Release, paired with the acquire load in has_failed(), so that all writes before this note
    // are visible there.
    failed_.store(node, std::memory_order_release);
  }

 private:
  friend class incoming;

  /// Work of one node in a reduction.
  struct reducing;

  struct message {
    label of;
    std::vector<std::byte> bytes;
  };
  /// Number of messages whose memory is kept for later ones.
  static constexpr std::size_t most_spare = 64;
  /// Number of collectives whose histories are kept, to compare them with the histories of nodes
  /// that are behind.
  static constexpr std::size_t most_histories = 256;
  /// Number of the collective, round in it, and number of the message in the round.
  using place = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;
  [[nodiscard]] static place place_of(const label& of) noexcept {
    return {of.number, of.round, of.piece};
  }

  /// Begins the next collective, which `as` describes. Throws error if an earlier collective has
  /// failed.
  void begin(const label& as);
  void disseminate(job_state& job, time_point deadline);
  /// Executes `body` as the collective that `as` describes. If it fails, tells the other nodes.
  /// Defined in incoming.hpp, for the sources of collectives.
  template <class Body>
  void run(job_state& job, const label& as, const Body& body);
  /// Stores a message that no collective waits for. Call with mutex_ held.
  void store(const label& of, std::span<const std::byte> bytes);
  /// Returns true if the message belongs to the collective that this node executes, as far as its
  /// label says.
  [[nodiscard]] bool is_same(const label& of) const noexcept;
  /// True if this node has executed the collective of the label, executes it, or is behind it; also
  /// if it was so long ago that this is not known.
  [[nodiscard]] bool may_be_same(const label& of) const noexcept;
  /// Throws the error of a message that does not belong to the collective that this node executes.
  [[noreturn]] void throw_different(const job_state& job, const label& of) const;
  /// Keeps the label of a different collective, unless one of an earlier collective is kept. Call
  /// with mutex_ held.
  void note_different(const label& of) noexcept;
  /// Throws error if another node has sent the label of a different collective.
  void throw_if_different(const job_state& job);
  /// Sends the current label to the node that this one waits for. Returns false if there is no
  /// space for it now.
  [[nodiscard]] bool send_label(job_state& job, node_id to) const noexcept;
  /// Throws error if a message of the current collective, or of an earlier one, is still stored at
  /// the end of the collective.
  void require_all_taken(const job_state& job);
  /// Returns the label of the first message of a round in which this node sends `bytes` bytes.
  [[nodiscard]] label label_of(const job_state& job, std::uint32_t round, std::size_t bytes) const;
  /// Returns the size of one message for data that consists of units of `unit` bytes. Each message
  /// contains whole units.
  [[nodiscard]] static std::size_t piece_of(std::size_t unit) noexcept;
  /// Sends one message, and changes its label to the next message's.
  void send_piece(job_state& job, node_id to, label& of, std::span<const std::byte> bytes,
                  time_point deadline) const;
  /// Sends bytes in one or several messages. The memory can be changed afterwards.
  void send(job_state& job, node_id to, std::uint32_t round, std::span<const std::byte> bytes,
            time_point deadline, std::size_t unit = 1) const;
  /// Receives bytes of exactly this size. Throws timeout, node_failed and error.
  void receive(job_state& job, node_id from, std::uint32_t round, std::span<std::byte> bytes,
               time_point deadline);
  /// Lets no more collectives begin, and tells all other nodes why the current one has failed here.
  void fail(job_state& job, const std::string& why) noexcept;
  /// Tells all other nodes why the current collective has failed here, unless they know of a
  /// failure of this collective or of an earlier one.
  void tell_failure(job_state& job, const std::string& why) noexcept;
  /// Throws the error of a node that has failed, or that has told of a failed collective. Otherwise
  /// does nothing.
  void throw_if_failed(const job_state& job);
  /// True if another node has told of the failure of this collective or of an earlier one.
  [[nodiscard]] bool is_told() const noexcept {
    // Acquire, paired with the release store in take_failure().
    return told_number_.load(std::memory_order_acquire) <= present_.number;
  }
  [[nodiscard]] bool has_failed() const noexcept {
    // Acquire, paired with the release store in note_failure(), so that all writes before the note
    // are visible.
    return failed_.load(std::memory_order_acquire) != no_node;
  }

  label present_; ///< label of the current collective; written with mutex_ held
  /// Reason why no further collective is possible; empty if one is. Written with mutex_ held.
  std::string why_broken_;
  std::vector<std::byte> scratch_; ///< memory of reductions, kept for the next one
  std::mutex mutex_;
  std::map<place, message> arrived_; ///< guarded by mutex_
  /// Elements of arrived_ whose memory can be reused; guarded by mutex_.
  std::vector<std::map<place, message>::node_type> spare_;
  incoming* expected_ = nullptr; ///< guarded by mutex_
  /// Histories of the last collectives, by their numbers; guarded by mutex_.
  std::array<std::uint64_t, most_histories> histories_{};
  std::vector<label> later_labels_; ///< of nodes that are ahead of this one; guarded by mutex_
  std::optional<label> different_;  ///< of a different collective; guarded by mutex_
  std::string told_;                ///< reason of a failure on another node; guarded by mutex_
  label told_of_;                   ///< collective that failed there; guarded by mutex_
  /// Number of the collective that has failed on another node; the maximum if none has.
  std::atomic<std::uint64_t> told_number_{UINT64_MAX};
  /// Number of the collective whose failure this node has told to all others; the maximum if none.
  std::uint64_t told_others_ = UINT64_MAX; ///< guarded by mutex_
  std::atomic<node_id> failed_{no_node};
};

} // namespace farcall::detail
