// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/roster.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/group_place.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

class hosted_node;
class launcher;
struct node_memory;
struct transport_entry;

/// Identifies a program. Two nodes run the same program if both values are equal.
struct program_identity {
  std::string build;
  std::uint64_t key_digest = 0;
};

/// The settings of one process of the job, as the host has sent them to it.
struct own_part {
  std::uint32_t lane_bytes = 0;
  std::uint32_t workers = 1;
  std::string name;
  std::string scheme;
  /// Place of this process among the processes that a launcher or MPI has started together.
  std::optional<group_place> group;
  /// True if this process itself passes descriptors of its memory to the other processes of its
  /// machine. If the host is on the same machine, the host passes them instead.
  bool hands_out_memory = false;
  /// For each transport, the bytes with which the host sets it up; the key is the transport's
  /// scheme.
  std::map<std::string, std::vector<std::byte>, std::less<>> setups;
  /// On the host, the launchers of the transports; the key is the transport's scheme.
  std::map<std::string, launcher*, std::less<>> launchers;

  /// Overwrites and removes `setups`, because they may contain secrets.
  void forget_setups() noexcept;
};

/// Functions that are called when the nodes of the job change. They are called on the failure
/// detector's thread and on threads that add nodes, only one at a time.
struct membership_events {
  /// Called when a node joins. The members know the node only after this call, so the function must
  /// not ask the members about it.
  std::function<void(const card&, const route&)> node_joined{};
  std::function<void(node_id, const std::string& why)> node_failed;
  /// Called on targets only, when the host tells the target to end. The function must make the
  /// target finish its calls and end.
  std::function<void()> shut_down;
  /// Called in jobs of equals only, after the result of round() or is_over() has changed.
  std::function<void()> round_changed{};
  /// Called on targets only, when an open file arrives that the target has requested from the host.
  /// `number` is the number of the request.
  std::function<void(std::uint64_t number, unique_fd file)> file_came{};
  /// Called on targets only, when the host has ended, by the thread that watches the host. If this
  /// function is empty, the process ends at once instead.
  std::function<void()> host_ended{};
};

/// The nodes of a job that one process knows. For each node, the members contain its card, the
/// route to it, and the transport that brings messages to it. They also contain the memory in which
/// the process receives. The host knows all nodes. A target knows the host and itself, and each
/// other node once one of the two has used the other.
///
/// A host_side or target_side owns the members. Only the owner changes them, by one thread at a
/// time. Any thread may call the const functions.
class members {
 public:
  /// Type of a function that sends a message of one of this process's transports to the transport
  /// of the same scheme on `peer`; see transport_site::tell.
  using tell_function =
      std::function<bool(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                         std::span<const int> files)>;
  /// Type of a function that makes a node known that this process does not know yet. Throws what
  /// meet() throws.
  using ask_function = std::function<void(node_id node, time_point deadline)>;

  /// Makes members that contain no nodes yet. Both functions must be callable as long as this
  /// object exists.
  members(tell_function tell, ask_function ask);
  members(const members&) = delete;
  members& operator=(const members&) = delete;
  ~members();

  [[nodiscard]] node_id self() const noexcept { return roster_.self(); }
  /// Returns how many places nodes of the job have had so far. A node that has ended is counted,
  /// and a node that has got its place is not. A target counts only nodes of which the host has
  /// told it.
  [[nodiscard]] std::size_t nodes() const noexcept { return roster_.size(); }
  /// Returns how many of the nodes that this process knows have not failed, this one included.
  [[nodiscard]] std::size_t live_nodes() const noexcept { return roster_.live(); }
  /// Returns the nodes that this process knows, in the order of their places. Leaves out nodes
  /// whose place another node has got.
  [[nodiscard]] std::vector<node_id> known_nodes() const { return roster_.known(); }
  /// Returns the latest node that this process knows to have had the place of `node`; `node` if it
  /// knows none.
  [[nodiscard]] node_id latest_at_place_of(node_id node) const noexcept {
    const node_id latest = roster_.latest_at_place_of(node);
    return latest == no_node ? node : latest;
  }
  /// Returns the upper limit of the places of nodes, which also holds for nodes that join later:
  /// all places are below it.
  [[nodiscard]] std::size_t capacity() const noexcept { return roster_.capacity(); }

  /// Makes the node known to this process. For an unknown node, a target asks the host and waits
  /// for the reply. Throws node_failed if the node has failed, timeout, and error if the node does
  /// not exist. Any thread may call it, except in a callback of membership_events.
  void meet(node_id node, time_point deadline = no_deadline) const {
    if (!roster_.knows(node)) ask_(node, deadline);
  }
  /// Throws error with the text that this node does not exist.
  [[noreturn]] void throw_missing(node_id node) const;
  /// Returns the node's card. Calls meet() first, and throws what meet() throws.
  [[nodiscard]] const card& card_of(node_id node) const {
    meet(node);
    return roster_.card_of(node);
  }
  /// Returns the route to the node. Calls meet() first, and throws what meet() throws.
  [[nodiscard]] const route& route_to(node_id node) const {
    meet(node);
    return roster_.route_to(node);
  }
  /// Returns true if the node exists or has existed. A target may have to ask the host and wait for
  /// its reply.
  [[nodiscard]] bool has(node_id node) const;
  /// Returns true if this process already has the node's card and the route to it.
  [[nodiscard]] bool knows(node_id node) const noexcept { return roster_.knows(node); }

  /// Returns the node `node` if it has no process of its own but lives in this process. Otherwise
  /// returns null.
  [[nodiscard]] hosted_node* hosted(node_id node) const noexcept;

  /// Returns all transports of this process, through which other nodes may open lanes to it.
  [[nodiscard]] std::vector<transport*> transports() const;

  [[nodiscard]] std::span<doorbell> doorbells() const noexcept { return doorbells_; }
  [[nodiscard]] const std::shared_ptr<shared_heap>& heap() const noexcept { return heap_; }

  /// Returns the route that messages to a node with the card `to` would take. The node need not be
  /// known.
  [[nodiscard]] route find_route(const card& to) const;

  // ---- functions for jobs of equals, which end in rounds ----

  /// Returns the number of the current round. The first round has the number 1.
  [[nodiscard]] std::uint32_t round() const noexcept {
    // Acquire, paired with the release store in begin_round(), so that all writes before the begin
    // of the round are visible.
    return round_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_over() const noexcept {
    // Acquire, paired with the release store in note_end(), so that all writes before the end of
    // the job are visible.
    return is_over_.load(std::memory_order_acquire);
  }

  // ---- for the side ----

  [[nodiscard]] farcall::roster& roster() noexcept { return roster_; }
  /// Takes over this node's own memory, makes the transports, and enters this node's card into the
  /// roster. Throws error.
  void set_up(node_memory memory, std::span<const transport_entry> table, const own_part& own,
              const program_identity& program);
  /// Takes the mapped memory of another node, and passes it to the transport that uses it. Call
  /// before the other node's card is added.
  void take_memory(node_memory of);
  /// Takes ownership of a node that lives in this process.
  void take_hosted(node_id node, std::unique_ptr<hosted_node> hosted);
  /// Chooses routes to the nodes that have none yet, so that these nodes become known. Calls
  /// `joined` for each of them; see roster::choose_routes(). Throws error.
  void choose_routes(const std::function<void(const card&, const route&)>& joined = {});
  /// Passes a message that the transport of the node `from` has sent to the transport of the same
  /// scheme in this process.
  void deliver(node_id from, const std::string& scheme, std::span<const std::byte> bytes,
               std::vector<unique_fd> files) noexcept;
  void begin_round(std::uint32_t number) noexcept {
    round_.store(number, std::memory_order_release);
  }
  /// Notes that the job is over.
  void note_end() noexcept { is_over_.store(true, std::memory_order_release); }
  /// Destroys the transports. After this call no other thread calls a transport any more.
  void drop_transports() noexcept;

 private:
  tell_function tell_;
  ask_function ask_;
  farcall::roster roster_;
  std::atomic<std::uint32_t> round_{1};
  std::atomic<bool> is_over_{false};
  log::limited_log lost_messages_{"more messages of nodes were lost"};
  segment receive_segment_;
  /// Descriptors of this node's memory, which transports send to other processes.
  std::vector<unique_fd> memory_files_;
  std::span<doorbell> doorbells_;
  std::shared_ptr<shared_heap> heap_;
  /// Nodes that live in this process: added while the job starts, destroyed by drop_transports().
  std::map<node_id, std::unique_ptr<hosted_node>> hosted_;
  std::vector<std::unique_ptr<transport>> transports_;
};

/// Returns the numbers of the processors that this process may run on.
[[nodiscard]] std::vector<unsigned> allowed_processors();

} // namespace farcall
