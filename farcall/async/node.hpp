// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/client.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/pack.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace farcall {

class members;

namespace detail {

struct copy_state;

/// The part of a job that calls and futures use. The other part, job_state, is only for the
/// library's sources.
struct job_core {
  std::uint32_t serial = 0; ///< distinguishes the job from a later one at the same address
  std::uint32_t mark = 0;   ///< distinguishes the job's memory from other jobs' memory, in all
                            ///< nodes of the job; not 0
  call_context context;
  am::client* client = nullptr;
  const farcall::members* members = nullptr; ///< nodes of the job; null before it has joined
  copy_state* copies = nullptr;
};

/// Returns `job` if it can be used. Throws forked in a child of a fork, and error once the job has
/// ended.
[[nodiscard]] inline job_core& usable(job_core& job) {
  job.client->require_own_process();
  return job;
}

/// The only job of the process; null if there is none, or several.
extern constinit std::atomic<job_core*> only_core;
/// Mark of the only job of the process; 0 if there is no job, or several.
extern constinit std::atomic<std::uint32_t> only_mark;
[[nodiscard]] job_core& find_current_core();
/// Returns the job of the handler that runs, or the only job of the process. Throws error if there
/// is neither.
[[nodiscard]] inline job_core& current_core() {
  if (current_context() == nullptr) [[likely]] {
    // Acquire, paired with the release store of only_core when a job begins or ends.
    job_core* const only = only_core.load(std::memory_order_acquire);
    if (only != nullptr && !only->client->is_forked()) [[likely]]
      return *only;
  }
  return find_current_core();
}
/// Returns the client of current_core(); null if there is no job. Throws error if there are
/// several.
[[nodiscard]] am::client* only_client();

} // namespace detail

template <class T>
class buffer;

/// Description of a node.
struct node_description {
  node_id id = 0;            ///< number of the node in the job
  std::string name;          ///< "host", "node 2", or the value of name= in the node's URL
  std::string host;          ///< name of the machine
  std::uint64_t pid = 0;     ///< number of its process
  std::string architecture;  ///< "x86_64", …
  std::uint32_t cores = 0;   ///< processors that the node may run on
  std::uint32_t workers = 0; ///< threads that run handlers
  std::string transport;     ///< scheme of the transport, "shm" or "tcp"; "none" if this node has
                             ///< no route to the node
  std::string route; ///< reason, in words, why this transport was chosen, or why there is none
};

class timed_node;
template <class S>
class stoppable_node;

/// A handle to a node of a job, to which the program sends calls. A value that is cheap to copy,
/// and valid as long as the job. Can be sent to other nodes, each of which gets its own handle to
/// the same node. Any thread may use it.
class node {
 public:
  node() noexcept = default;
  /// Makes a handle to node `id` of a job; programs use job::targets() and node_at().
  node(detail::job_core& job, node_id id) noexcept : job_(&job), job_serial_(job.serial), id_(id) {}
  // Not trivial on purpose: a lambda that captures a node would otherwise be sent by memcpy, and
  // take along a handle that means nothing elsewhere. Pass nodes as arguments.
  // NOLINTBEGIN(modernize-use-equals-default, bugprone-unhandled-self-assignment)
  node(const node& other) noexcept
      : job_(other.job_), job_serial_(other.job_serial_), id_(other.id_) {}
  node& operator=(const node& other) noexcept {
    job_ = other.job_;
    job_serial_ = other.job_serial_;
    id_ = other.id_;
    return *this;
  }
  // NOLINTEND(modernize-use-equals-default, bugprone-unhandled-self-assignment)
  ~node() = default;

  /// Returns the number of the node in the job, which no other node of the job ever gets. The
  /// host's number is 0. See job::add() for the numbers of later nodes.
  [[nodiscard]] node_id id() const noexcept { return id_; }
  /// Returns the description of the node. Throws error for a handle that belongs to no job.
  [[nodiscard]] node_description description() const;
  /// Returns the name in description(), and throws what description() throws.
  [[nodiscard]] std::string name() const { return description().name; }

  /// Returns false once the node has exited, was killed or has become unreachable, and once the job
  /// has ended. Throws error for a handle that belongs to no job, and forked in a child of a fork.
  [[nodiscard]] bool alive() const;

  /// Allocates `n` elements on the node, uninitialised, aligned for T and at least to 64 bytes.
  /// Nodes of one machine share the memory; memory of a device is not shared. Blocks for a round
  /// trip. Throws node_failed, and out_of_memory whose text names the sizes.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t n) const;

  /// Returns the node with a deadline. The returned value takes the place of the node in calls and
  /// other operations. Such an operation throws timeout if it still waits for space in the lane
  /// when the deadline passes, and get() of its future throws timeout as well. A call that is not
  /// done by the deadline is stopped (call_stop_token) once its future is destroyed. A posted call
  /// is never stopped.
  [[nodiscard]] timed_node within(time_limit duration) const noexcept;

  /// Returns the node with a stop token, such as std::stop_token. When a stop is requested, futures
  /// of calls to the node end with `cancelled`, and the node is told of the stop. Defined in
  /// async/stop_token.hpp. Never fails.
  template <class S>
  [[nodiscard]] stoppable_node<S> with(S stop) const;

  /// Returns the job, or null if there is none. For the library itself.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }
  /// Returns false once the job has ended, and in a child of a fork. If it returns false, only this
  /// function and alive() may be called.
  [[nodiscard]] bool has_job() const noexcept;
  friend bool operator==(const node& a, const node& b) noexcept = default;
  /// Writes the node as messages name it: "node 3" or "the host (node 0)".
  template <class Traits>
  friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& to,
                                                      const node& n) {
    return to << node_text(n.id_);
  }

 private:
  detail::job_core* job_ = nullptr;
  std::uint32_t job_serial_ = 0;
  node_id id_ = no_node;
};

/// A node with a deadline; see node::within(). A value, like a node: any thread may use it.
class timed_node {
 public:
  /// Makes a call target: calls and allocations that use it must be done by `deadline`.
  timed_node(const node& where, time_point deadline) noexcept
      : where_(where), deadline_(deadline) {}
  /// Returns the node.
  [[nodiscard]] const node& where() const noexcept { return where_; }
  /// Returns the deadline.
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }
  /// Allocates like node::allocate(); also throws timeout if the node has not replied by the
  /// deadline. Memory that the node allocates after the deadline is freed. For memory of devices,
  /// the deadline also ends a wait for the device.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t n) const;
  /// Returns the node with a stop token, like node::with(). Never fails.
  template <class S>
  [[nodiscard]] stoppable_node<S> with(S stop) const;

 private:
  node where_;
  time_point deadline_;
};

inline timed_node node::within(time_limit duration) const noexcept {
  return {*this, deadline_after(duration)};
}

/// Returns this process's node. In a handler, this is the node in the handler's job; outside of
/// handlers, it is the node in the only job of the process. Throws error if there is no job, or
/// several.
[[nodiscard]] node this_node();

/// Returns node 0 of the job of this_node(). Throws what this_node() throws.
[[nodiscard]] node host();

/// Returns node `id` of the job of this_node(). Throws error if the job has no such node.
[[nodiscard]] node node_at(node_id id);

/// Returns how many nodes the job of this_node() has had so far, like job::size(). Throws what
/// this_node() throws.
[[nodiscard]] std::size_t node_count();

/// Sends a node as its number.
template <>
struct packer<node> {
  /// Writes the number.
  static void pack(writer& w, const node& n) { w(n.id()); }
  /// Reads the node that was sent as its number. Throws error if the job of the call has no such
  /// node.
  static node unpack(reader& r) { return node_at(r.read<node_id>()); }
};

namespace detail {

/// Number of this process's node; 0 in a host, even if it has several jobs. Defined in the library,
/// so that all modules of a program share one variable, even if they hide their symbols.
extern constinit std::atomic<node_id> process_node;

[[nodiscard]] inline node_id own_id() noexcept {
  return process_node.load(std::memory_order_relaxed);
}

} // namespace detail
} // namespace farcall

/// Hash for unordered containers of nodes. Nodes of different jobs may share a value.
template <>
struct std::hash<farcall::node> {
  /// Returns the hash of the node's number.
  std::size_t operator()(const farcall::node& n) const noexcept {
    return std::hash<farcall::node_id>()(n.id());
  }
};
