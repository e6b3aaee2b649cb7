#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/job/roster.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/group_place.hpp>
#include <farcall/transport/target_url.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace farcall {

class hosted_node;
class launcher;
struct node_memory;
struct port_connection;
struct transport_entry;

/// What a program is, for nodes that must know whether they run the same one.
struct program_identity {
  std::string build;
  std::uint64_t key_digest = 0;
};

/// What a host needs to start its targets; see job_options, which most of it comes from.
struct membership_options {
  std::span<const transport_entry> transports; ///< the table; outlives the membership
  std::vector<target_url> targets;
  /// Processes of this machine that exist already and become the last targets, each with the other
  /// end of a socket; see existing_launcher.
  std::vector<unique_fd> existing;
  /// Processes that something else has started, of which this is the first: the others become the
  /// nodes from 1 on, before `targets`.
  std::optional<process_group> group;
  std::uint32_t workers = 1;                  ///< of each of those two kinds
  std::string program;                        ///< of targets whose URL names none; empty: our own
  std::vector<std::string> arguments;         ///< of the targets, argv[0] included
  std::chrono::milliseconds start_timeout{0}; ///< for all targets to join
  std::chrono::milliseconds stop_timeout{0};  ///< for targets to finish, then they are killed
  std::uint32_t lane_bytes = 0;               ///< size of a ring; a power of two
  std::uint64_t heap_bytes = 0; ///< most memory a node can share; 0: all the machine has
  farcall::access access;       ///< to servers; empty: unencrypted
  std::chrono::milliseconds heartbeat_timeout{0}; ///< a server that is silent for longer is gone
  std::chrono::milliseconds peer_timeout{
      0};                          ///< a target that is silent for longer is killed; 0: none
  std::vector<std::byte> settings; ///< passed on to the targets, for the layers below
  /// A job of equals: targets run a program of their own, which goes on behind the job, and end it
  /// together; see be_quiet(). When one ends before, all do.
  bool are_equals = false;
  bool survives = false; ///< of these: then the others go on
  /// What all targets print goes through this process, with the node's number before each line;
  /// else only what those elsewhere print does, as it is.
  bool labels = false;
};

/// Called on a thread of the membership's own, one at a time.
struct membership_events {
  /// A node is about to be known here. Must not ask the membership about it.
  std::function<void(const card&, const route&)> node_joined{};
  std::function<void(node_id, const std::string& why)> node_failed;
  std::function<void()> shut_down;       ///< targets only: finish and end
  std::function<void()> round_changed{}; ///< jobs of equals: round() or is_over() has changed
  /// Targets only: an open file of the host's, which was asked for by this number.
  std::function<void(std::uint64_t number, unique_fd file)> file_came{};
  /// Targets only: the host has ended; else the process ends at once. Watching does.
  std::function<void()> host_ended{};
};

/// This process's part in a job: the roster, the transports to the others, and the memory that they
/// reach. On the host, which knows all nodes, it owns the targets; on a target it owns the tie to
/// the host: when the host goes, so does the process. A target knows the host and itself, and other
/// nodes once one of the two has used the other.
class membership {
 public:
  /// True in a process that was started as a target, also if it has lost a mark of targets: then
  /// join() throws. False once it has joined, and in other programs that it starts before.
  [[nodiscard]] static bool is_target() noexcept;

  /// Host: starts the targets and waits until all have joined. Throws start_failed naming the node
  /// and the reason; nothing is left running then.
  [[nodiscard]] static std::unique_ptr<membership> launch(membership_options o,
                                                          const program_identity& program);

  /// Target, before it joins: throws error, which the host is told, if the target cannot do what
  /// these settings of the job ask for, or cannot have so many workers. `scheme` is of the
  /// transport to the host.
  using join_check = std::function<void(std::span<const std::byte> settings,
                                        std::string_view scheme, std::uint32_t workers)>;
  /// Target: joins the job of the host at the other end of the connection, or of the one that
  /// started us. Throws error.
  [[nodiscard]] static std::unique_ptr<membership> join(port_connection to_host,
                                                        std::span<const transport_entry> table,
                                                        const program_identity& program,
                                                        const join_check& check);
  [[nodiscard]] static std::unique_ptr<membership> join(std::span<const transport_entry> table,
                                                        const program_identity& program,
                                                        const join_check& check);
  /// Target: joins the job of the group's first process, the host. Waits until all processes of the
  /// group do, for so long where the group can be left. Throws error.
  [[nodiscard]] static std::unique_ptr<membership> join(const process_group& group,
                                                        std::chrono::milliseconds patience,
                                                        std::span<const transport_entry> table,
                                                        const program_identity& program,
                                                        const join_check& check);

  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;
  virtual ~membership();

  [[nodiscard]] node_id self() const noexcept { return roster_.self(); }
  /// As many as the job has had; on a target, as far as it was told.
  [[nodiscard]] std::size_t nodes() const noexcept { return roster_.size(); }
  /// Numbers of nodes are below it, also of those that join later.
  [[nodiscard]] std::size_t capacity() const noexcept { return roster_.capacity(); }

  /// Makes the node known here: a target asks the host about one that is not, and waits. Throws
  /// node_failed when the node has failed before, timeout, and error when there is no such node.
  /// Any thread but those that run membership_events.
  void meet(node_id node, time_point deadline = no_deadline) const {
    if (!roster_.knows(node)) ask_for(node, deadline);
  }
  /// Meet it. Throw what meet() throws.
  [[nodiscard]] const card& card_of(node_id node) const {
    meet(node);
    return roster_.card_of(node);
  }
  [[nodiscard]] const route& route_to(node_id node) const {
    meet(node);
    return roster_.route_to(node);
  }
  /// Whether there is such a node, or was. A target may ask the host, and wait.
  [[nodiscard]] bool has(node_id node) const;
  /// The node's card and route are here already.
  [[nodiscard]] bool knows(node_id node) const noexcept { return roster_.knows(node); }
  [[nodiscard]] std::span<const std::byte> settings() const noexcept { return settings_; }

  /// The node if it lives in this process; null for one that is a process, or lives in another's.
  [[nodiscard]] virtual hosted_node* hosted(node_id /*node*/) const noexcept { return nullptr; }

  /// How long targets may take to finish.
  [[nodiscard]] std::chrono::milliseconds stop_timeout() const noexcept { return stop_timeout_; }

  /// Every transport through which lanes may arrive.
  [[nodiscard]] std::vector<transport*> transports() const;

  [[nodiscard]] std::span<doorbell> doorbells() const noexcept { return doorbells_; }
  [[nodiscard]] const std::shared_ptr<shared_heap>& heap() const noexcept { return heap_; }

  /// Host: starts these targets, too, and waits until they have joined; the others go on. Returns
  /// their numbers. Throws start_failed, and error on a target; none of them is left then. Any
  /// thread, after watch().
  virtual std::vector<node_id> add(const std::vector<target_url>& urls, time_point deadline);
  /// Host: tells a target to finish what has arrived and to end, and waits for it; kills it at the
  /// deadline. Calls `meanwhile` every millisecond. Returns at once for one that has failed. Throws
  /// error for a node that is no process, or not one of the host's, and on a target. Any thread,
  /// after watch().
  virtual void remove(node_id node, time_point deadline, const std::function<void()>& meanwhile);
  /// Host: what the target was started from. Throws error for one that was not started by the job,
  /// and on a target.
  [[nodiscard]] virtual const target_url& url_of(node_id node) const;

  /// Tells why this process cannot go on with the job; before it ends. Target: the host. On the
  /// host, ends the others of a job of equals.
  virtual void give_up(const std::string& why) = 0;

  /// Host: passes an open file to a target on this machine, which keeps it under that number. False
  /// where it cannot: the target is elsewhere, does not listen, or has gone. Never blocks. Any
  /// thread.
  virtual bool send_file(node_id /*to*/, std::uint64_t /*number*/, int /*file*/) noexcept {
    return false;
  }

  // ---- jobs of equals, which end in rounds ----

  /// The connection of a lane between this node and that one has ended, and with it messages that
  /// the other side waits for: one of the two has to end. The host ends the node's process, and a
  /// target its own. Does nothing for one that has failed, or when the job is over. Any thread.
  virtual void cut_off(node_id node) = 0;

  /// Host: whether the others go on when a node ends without having closed the job. Any thread.
  virtual void survive(bool /*goes_on*/) {}
  /// This node has nothing more to do in this round, unless others have; `was_active`: it has sent
  /// something since the round before. The next round begins once all nodes have said so; once none
  /// was active, the job is over.
  virtual void be_quiet(bool was_active) = 0;
  /// From 1 on.
  [[nodiscard]] std::uint32_t round() const noexcept {
    // Acquire; partner: the release stores where it changes.
    return round_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  /// Host of one that is over: waits until the other processes have ended. Returns the exit status
  /// of the first that was not zero.
  [[nodiscard]] virtual int wait_for_others() { return 0; }

  /// Starts watching. Call once, before the first lane is opened.
  void watch(membership_events events);

  /// Stops watching. Host: tells the targets to finish, waits for them, and kills those that do not
  /// end in time. Calls `meanwhile` every millisecond: targets may need something to finish.
  virtual void shut_down(const std::function<void()>& meanwhile) = 0;

 protected:
  /// What a node that makes its own memory needs to know.
  struct memory_sizes {
    std::uint32_t lane_bytes = 0;
    std::uint64_t heap_bytes = 0; ///< 0: all the machine has
    std::size_t nodes = 1;        ///< whose heaps one process maps
    bool is_emulated = false;     ///< one of the processes is, and pays for what it maps
  };
  /// What a process is told of its own part.
  struct part {
    std::uint32_t lane_bytes = 0;
    std::uint32_t workers = 1;
    std::string name;
    std::string scheme;
    std::optional<group_place> group; ///< of processes that something else has started
    bool hands_out_memory = false;    ///< to others of its machine, which the host is not on
    std::map<std::string, std::vector<std::byte>, std::less<>> setups; ///< of transports, by scheme
    std::map<std::string, launcher*, std::less<>> launchers;           ///< host, by scheme

    /// Wipes `setups`, in which there may be secrets.
    void forget_setups() noexcept;
  };

  membership() = default;

  /// Untouched: set_up() lays it out.
  [[nodiscard]] static node_memory make_memory(node_id node, const memory_sizes& sizes);
  /// Takes our own memory, makes the transports and enters our own card into the roster.
  void set_up(node_memory memory, std::span<const transport_entry> table, const part& own,
              const program_identity& program);
  /// Another node's, for the transport that uses it. Before the node's card.
  void take_memory(node_memory of);
  void choose_routes();
  /// How that node, which is not known yet, would be reached.
  [[nodiscard]] route find_route(const card& to) const;
  /// Brings what another node's transport has said to ours.
  void deliver(node_id from, const std::string& scheme, std::span<const std::byte> bytes,
               std::vector<unique_fd> files) noexcept;
  void stop_watching();
  /// The transports go; what others' threads still do for them ends.
  void drop_transports() noexcept { transports_.clear(); }

  /// Of a node that is not known here.
  virtual void ask_for(node_id node, time_point deadline) const;
  /// Runs on a thread of its own until `stop_signal` is readable.
  virtual void watch_others(int stop_signal) = 0;
  /// Sends a transport's message to the peer's; see transport_site::tell.
  virtual bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                    std::span<const int> files) noexcept = 0;
  /// Transports of nodes that live here.
  [[nodiscard]] virtual std::vector<transport*> hosted_transports() const { return {}; }

  std::atomic<std::uint32_t> round_{1};
  std::atomic<bool> is_over_{false};
  roster roster_;
  log::limited_log lost_messages_{"more messages of nodes were lost"};
  std::chrono::milliseconds stop_timeout_{0};
  std::vector<std::byte> settings_;
  membership_events events_;

 private:
  segment receive_segment_;
  std::vector<unique_fd> memory_files_; ///< that transports hand out
  std::span<doorbell> doorbells_;
  std::shared_ptr<shared_heap> heap_;
  std::vector<std::unique_ptr<transport>> transports_;
  unique_fd stop_signal_;
  std::thread failure_detector_;
};

/// Processors that this process may run on, by number.
[[nodiscard]] std::vector<unsigned> allowed_processors();

} // namespace farcall
