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

namespace detail {

/// What calls and futures need of a job. The rest, job_state, is only for the library's sources.
struct job_core {
  std::uint32_t serial = 0; ///< tells a job from a later one at the same address
  std::uint32_t mark = 0;   ///< tells the job's memory from other jobs', in all of its nodes; not 0
  call_context context;
  am::client* client = nullptr;
};

/// The only job of the process; null where there is none, or several.
extern constinit std::atomic<job_core*> only_core;
/// The mark of that job; 0 if there is none, or several.
extern constinit std::atomic<std::uint32_t> only_mark;
[[nodiscard]] job_core& find_current_core();
/// The job of the handler that runs, or the only one of the process. Throws error otherwise.
[[nodiscard]] inline job_core& current_core() {
  if (current_context() == nullptr) [[likely]] {
    // Acquire; partner: the release store where jobs begin and end.
    job_core* const only = only_core.load(std::memory_order_acquire);
    if (only != nullptr && !only->client->is_forked()) [[likely]]
      return *only;
  }
  return find_current_core();
}
/// What makes its calls; null when there is no job. Throws error when there are several.
[[nodiscard]] am::client* only_client();

} // namespace detail

template <class T>
class buffer;

/// What is known about a node.
struct node_description {
  node_id id = 0;            ///< its number in the job
  std::string name;          ///< "host", "node 2", or name= of its URL
  std::string host;          ///< name of the machine
  std::uint64_t pid = 0;     ///< process
  std::string architecture;  ///< "x86_64", …
  std::uint32_t cores = 0;   ///< processors that the node may run on
  std::uint32_t workers = 0; ///< threads that run handlers
  std::string transport;     ///< its scheme, "shm" or "tcp"; "none" if there is no route from here
  std::string route;         ///< why this transport, or why none, in words
};

class timed_node;
template <class S>
class stoppable_node;

/// A node of a job: where a call goes. A cheap value; valid as long as its job. Can be passed to
/// other nodes, which get their own handle to it. Any thread may use it.
class node {
 public:
  node() noexcept = default;
  /// Node `id` of a job; programs use job::targets() and node_at().
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

  /// Its number in the job; the host is 0.
  [[nodiscard]] node_id id() const noexcept { return id_; }
  /// What is known about it. Throws error for a handle that belongs to no job.
  [[nodiscard]] node_description description() const;
  /// As in description(), and throws the same.
  [[nodiscard]] std::string name() const { return description().name; }

  /// False once the node has exited, was killed or cannot be reached any more, and once the job has
  /// ended. Throws error for a handle that belongs to no job, and forked in a child of a fork.
  [[nodiscard]] bool alive() const;

  /// `n` elements on the node, uninitialised, aligned for T and at least to 64 bytes. Nodes of one
  /// machine share this memory; a device's is its own. Blocks for a round trip. Throws
  /// out_of_memory naming the sizes, node_failed.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t n) const;

  /// The same node, with a deadline for what is started by the call that it is given to: waiting
  /// for space, and get() of the future, throw timeout when it has passed. A call that is not done
  /// by then is stopped once its future goes (call_stop_token), unless it was posted.
  [[nodiscard]] timed_node within(time_limit duration) const noexcept;

  /// The same node, with a stop token, as std::stop_token: futures of calls to it end with
  /// `cancelled` when a stop is requested, and it is told. In offload/stop_token.hpp. Never fails.
  template <class S>
  [[nodiscard]] stoppable_node<S> with(S stop) const;

  /// For the library itself: the job, null for none.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }
  /// False once the job has ended, and in a child of a fork; then nothing but this, and
  /// alive(), may be asked.
  [[nodiscard]] bool has_job() const noexcept;
  friend bool operator==(const node& a, const node& b) noexcept = default;
  /// As messages speak of it: "node 3" or "the host (node 0)".
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

/// A node and a point in time; see node::within(). A value, as a node is: any thread may use it.
class timed_node {
 public:
  /// What is started on `where` has to be done by `deadline`.
  timed_node(const node& where, time_point deadline) noexcept
      : where_(where), deadline_(deadline) {}
  /// The node.
  [[nodiscard]] const node& where() const noexcept { return where_; }
  /// When its time is over.
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }
  /// As node::allocate(); throws timeout, too, when the node has not answered by the deadline. What
  /// it allocates later is freed. Memory of devices: a wait for the device ends then, too.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t n) const;
  /// As node::with(), and never fails.
  template <class S>
  [[nodiscard]] stoppable_node<S> with(S stop) const;

 private:
  node where_;
  time_point deadline_;
};

inline timed_node node::within(time_limit duration) const noexcept {
  return {*this, deadline_after(duration)};
}

/// The node that runs this code. In a handler, of the handler's job; elsewhere, of the only job of
/// the process. Throws error when there is no job, or several.
[[nodiscard]] node this_node();

/// Node 0 of the same job as this_node(). Throws as that does.
[[nodiscard]] node host();

/// Node `id` of the same job. Throws error when the job has no such node.
[[nodiscard]] node node_at(node_id id);

/// How many nodes the job of this_node() has, the host included. Throws as that does.
[[nodiscard]] std::size_t node_count();

/// A node is sent as its number.
template <>
struct packer<node> {
  /// Writes the number.
  static void pack(writer& w, const node& n) { w(n.id()); }
  /// Throws error when the job of the call has no such node.
  static node unpack(reader& r) { return node_at(r.read<node_id>()); }
};

namespace detail {

/// Number of the node that this process is: 0 in every host, whatever the number of jobs. Defined
/// in the library: one for all parts of a program, whatever they hide.
extern constinit std::atomic<node_id> process_node;

[[nodiscard]] inline node_id own_id() noexcept {
  return process_node.load(std::memory_order_relaxed);
}

} // namespace detail
} // namespace farcall

/// For unordered containers of nodes. Nodes of different jobs may share a value.
template <>
struct std::hash<farcall::node> {
  /// Of its number.
  std::size_t operator()(const farcall::node& n) const noexcept {
    return std::hash<farcall::node_id>()(n.id());
  }
};
