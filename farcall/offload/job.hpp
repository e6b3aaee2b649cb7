// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/wait_policy.hpp>
#include <farcall/async/node.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/container_layout.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/reduction.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {
class output_receiver;
struct process_counters;
struct process_group;
namespace detail {
struct job_state;
}

/// Options of a job. If the program sets an option, this value is used. Otherwise the environment
/// variable of the option is used, or else the default. If the program also passes its command line
/// to the job, both the command line and the environment take precedence over these options.
struct job_options {
  /// URLs of the targets, separated by commas: "shm", "shm:4",
  /// "shm:2?workers=4&cpu=1&program=./other&name=solver", "exec:qemu-aarch64 ./other?count=2",
  /// "tcp://host:port?count=2". With "none", the host is alone; a plain job can add targets later.
  /// Default: FARCALL_TARGETS if set, otherwise "shm".
  std::string targets{};
  /// Processes of this machine that exist already, for instance because a launcher has started
  /// them, and that become the last targets of the job. Each element is a descriptor, one end of a
  /// socketpair(AF_UNIX, SOCK_SEQPACKET, …). The process passes the other end to serve_as_target().
  /// The job closes these descriptors, even if it cannot be made. If this option is set, but
  /// `targets` and FARCALL_TARGETS are not, the job starts no other targets.
  std::vector<int> existing_targets{};
  /// Determines whether the processes that a launcher (mpirun, prterun, srun or mpiexec) has
  /// started together make one job. In such a job, process 0 is the host, and process N is node N;
  /// the nodes of `targets` have higher numbers. With "auto", they make one job if a launcher has
  /// started them. With "pmix" or "pmi", they do so by this interface, and it is an error if there
  /// is none. With "none", each process makes its own job. Only the first job of a process can be
  /// such a job. If `targets` or FARCALL_TARGETS is set, the job also starts these nodes, even if
  /// the launcher has started only one process. Default: FARCALL_PROCESS_MANAGER if set, otherwise
  /// "auto". See docs/guide/17-clusters.md.
  std::string process_manager{};
  /// Number of threads that run handlers in a process that a launcher has started (see
  /// process_manager), and in a process of `existing_targets`. For the nodes of `targets`, the
  /// option workers= of the URL has this meaning instead. For plain jobs only. Default:
  /// FARCALL_WORKERS if set, otherwise 1.
  std::uint32_t workers = 0;
  /// Program that targets run. It must make a job or call serve_if_target(). Default: the program
  /// of this process.
  std::string program{};
  /// Arguments of the targets' program, beginning with argv[0]. Default: the arguments of this
  /// process.
  std::vector<std::string> arguments{};
  /// Maximum time until all targets have joined. Default: the setting FARCALL_START_TIMEOUT_MS.
  std::chrono::milliseconds start_timeout{0};
  /// When the job ends, targets that have not finished after this time are killed. Default: the
  /// setting FARCALL_STOP_TIMEOUT_MS.
  std::chrono::milliseconds stop_timeout{0};
  /// When the destructor of a buffer frees the memory on a node, it may have to wait, for instance
  /// because the lane to the node is full. It waits for at most this time. Afterwards it logs an
  /// error, and the memory stays allocated until the job ends. Default: the setting
  /// FARCALL_RELEASE_TIMEOUT_MS.
  std::chrono::milliseconds release_timeout{0};
  /// Size of a lane's ring, in bytes. It must be a power of two. A record can have at most a
  /// quarter of this size. Default: the setting FARCALL_LANE_BYTES.
  std::uint32_t lane_bytes = 0;
  /// Maximum size, in bytes, of the memory that a node can share. Physical memory is allocated only
  /// when it is used. Default: FARCALL_HEAP_BYTES if set, otherwise the size of the machine's
  /// memory.
  std::uint64_t heap_bytes = 0;
  /// File with a key that this program has in common with servers (targets tcp:// and unix://);
  /// 'farcall keygen' makes such a file. Default: FARCALL_KEY. Without a key, connections are
  /// unencrypted, and are possible only to loopback addresses and to Unix sockets of the same user.
  std::string key{};
  /// Three PEM files that can be used instead of a key: this program's certificate, the private key
  /// of this certificate, and the certificate of the authority that signs all certificates.
  /// Default: FARCALL_CERTIFICATE, FARCALL_CERTIFICATE_KEY and FARCALL_AUTHORITY.
  std::string certificate{};
  std::string certificate_key{};
  std::string authority{};
  /// If certificates are used: the public key that a server must have, written as "sha256:BASE64"
  /// of its SubjectPublicKeyInfo; several keys are separated by commas. This check replaces the
  /// check of the name in the server's certificate. If no authority is given, it also replaces the
  /// check by an authority. Default: FARCALL_SERVER_KEY.
  std::string server_key{};
  /// If a server has sent nothing for this time, the server and its targets count as failed.
  /// Default: FARCALL_HEARTBEAT_TIMEOUT_MS if set, otherwise 5 s.
  std::chrono::milliseconds heartbeat_timeout{0};
  /// If true, a target of a server (tcp://) that has failed, for instance together with its server,
  /// is restarted as a new node once a server accepts it. job::on_node_change() reports the new
  /// node, and which node it replaces. The job tries this for about ten minutes, with pauses of up
  /// to 8 s.
  bool restart_lost_servers = false;
  /// In a job of equals, true if the other nodes go on when one node ends. Afterwards calls to the
  /// ended node throw node_failed, and so do all collectives except the end of the job.
  bool survive = false;
  /// Time within which a target must reply to the host's heartbeats. Otherwise it counts as failed
  /// and is killed, on any machine. A target does not reply if it is stopped (by SIGSTOP or a
  /// debugger) or hangs in the kernel. It replies while its handlers compute, so use deadlines to
  /// limit these. Default: FARCALL_PEER_TIMEOUT_MS if set; otherwise the host sends no heartbeats.
  std::chrono::milliseconds peer_timeout{0};
  /// Folders and files of the host that targets may use, as in "/data:ro,/home/me". Each is either
  /// read-only (":ro") or writable (":rw", or no suffix). In plain jobs only. Default:
  /// FARCALL_HOST_FILES if set, otherwise none. See docs/guide/16-files.md.
  std::string host_files{};
  /// If true, the number of the node precedes each line that a target prints to its standard output
  /// or error, as in "2: text". For this purpose the lines go through this process. The output of
  /// existing_targets is not changed. Default: FARCALL_LABEL if set, otherwise false.
  bool label = false;
  /// Receiver of the lines that targets print, for instance for a notebook or a logger. If it is
  /// set, all targets that the job starts print through this process, nothing is written to its
  /// standard output and error, and `label` has no effect. Processes of `existing_targets` and of a
  /// launcher keep their own output. The program owns the receiver, and keeps it until the job has
  /// ended; then all lines have been passed to it. If exit() is called before, it gets the last
  /// lines in exit(). Include job/output_receiver.hpp.
  output_receiver* output = nullptr;
  /// Detail of the report when a target crashes or aborts. With "names", the exception node_failed
  /// contains the signal, the address, and the names of the functions that were running. With
  /// "full", the target in addition prints the functions with their lines and arguments to its
  /// standard error; this takes at most 3 s. With "off", there is no report, and node_failed
  /// contains only the signal. Default: FARCALL_CRASH_REPORT if set, otherwise "full". See
  /// docs/guide/19-debugging.md.
  std::string crash_report{};
  /// File for a timeline of all nodes, in the trace event format, which Perfetto and browsers can
  /// show. The file is written when the job ends. "%p" in the file name is replaced by the id of
  /// this process. Default: FARCALL_TRACE if set, otherwise no timeline. See
  /// docs/guide/18-seeing-what-a-job-does.md.
  std::string trace{};
  /// Determines which threads of the host take replies and run continuations. With "wait", only
  /// threads do this that wait for a future, test one, or call progress(). With "thread", a thread
  /// of farcall also does it, so that the program need not wait. In a job of equals, the host's
  /// value applies to all nodes, and also determines which thread runs handlers: with "wait" the
  /// thread that made the job, and with "thread" a thread of farcall. Targets of plain jobs always
  /// work as with "thread". Default: FARCALL_PROGRESS if set, otherwise "wait".
  std::string progress{};
  /// How long waiting threads spin before they sleep. Default: the settings FARCALL_SPIN_US and
  /// FARCALL_YIELD_AFTER_US.
  wait_policy waiting{std::chrono::nanoseconds(-1), std::chrono::nanoseconds(-1)};
};

/// A time limit that never passes.
inline constexpr time_limit no_limit{std::chrono::hours::max()};

/// Specialise this class for the type of a communicator, so that a job can be made of its
/// processes. The specialisation must have a static member process_group group_of(Communicator).
template <class Communicator>
struct group_traits;

/// Type of the tag that selects the constructors of a job of equals; see job.
struct spmd_t {
  explicit spmd_t() = default;
};
/// Tag that selects the constructors of a job of equals, as in `fc::job job{fc::spmd, argc, argv};`
inline constexpr spmd_t spmd{};

FARCALL_BEGIN_CONTAINER_LAYOUT
/// A set of nodes that call each other: this process, which is the host, and the targets that it
/// starts.
///
/// The constructor starts the same program once more for every target. In the process of a target,
/// the constructor serves calls until the job ends, and never returns. Therefore make the job first
/// in main(), before code that only the host shall run. The destructor lets the targets finish the
/// calls that have arrived, and then ends the targets. Futures, buffers, lanes and nodes that
/// outlive their job may be destroyed, but not used. Only futures may still be used; a future that
/// was not ready throws node_failed. A process can have several jobs at a time. Any thread may use
/// a job, but only one thread may make, move and destroy it.
///
/// In a *job of equals* (fc::spmd), the constructor returns on all nodes, and every node runs its
/// own main(), like in MPI and other SPMD programs. Handlers run on the thread that made the job,
/// while this thread waits in a function of farcall or calls progress(); if `progress` is "thread",
/// they run on a thread of farcall instead. All nodes must call the collectives, such as barrier(),
/// on the thread that made the job, and in the same order. The destructor, or close(), is a
/// collective, too. The job ends once all nodes have called it, and all calls and continuations
/// have ended. Code after the end of the job runs on all nodes. If a node ends before the job has
/// ended, or leaves the job by an exception, all other nodes are ended with its exit status, unless
/// job_options::survive is set. In exit(), the host waits for the other nodes; if one of them has
/// failed, the host exits with its status. A process can have only one job of equals, and must make
/// it first in main(). See docs/guide/14-jobs-of-equals.md.
class job {
 public:
  /// Makes a job with the targets that FARCALL_TARGETS names, or with one target. Throws
  /// start_failed and setting_error.
  job();
  /// Makes a job with these options, which take precedence over the environment. Throws
  /// start_failed and setting_error.
  explicit job(const job_options& options);
  /// Makes a job of a program with a command line. Removes the options that start with --farcall-
  /// from the command line. These options take precedence over the environment, and the environment
  /// over `options`. For `--farcall-help`, prints the options and exits. Throws start_failed and
  /// setting_error.
  job(int& argc, char** argv, const job_options& options = {});
  /// Makes a job of equals. The host starts the other nodes, and the constructor returns on these,
  /// too. Throws start_failed, and setting_error, for instance for devices, existing targets, and
  /// targets with several workers.
  explicit job(spmd_t, const job_options& options = {});
  /// Makes a job of equals of a program with a command line, like the constructor of a plain job.
  job(spmd_t, int& argc, char** argv, const job_options& options = {});
  /// Makes a job of equals of processes that exist already, such as the processes of an MPI
  /// communicator. All processes of the group must call this constructor; process 0 becomes the
  /// host. Blocks until all have called it. Throws start_failed and setting_error. Include
  /// job/process_group.hpp.
  job(spmd_t, const process_group& group, const job_options& options = {});
  /// Makes a job of equals whose nodes are the processes of a communicator. With farcall/mpi.hpp,
  /// this can be an MPI communicator, as in `fc::job job{MPI_COMM_WORLD};`
  template <class Communicator>
    requires requires(const Communicator& c) { group_traits<Communicator>::group_of(c); }
  explicit job(const Communicator& c, const job_options& options = {})
      : job(spmd, group_traits<Communicator>::group_of(c), options) {}
  job(job&& other) noexcept;
  job& operator=(job&& other) noexcept;
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job();

  /// Returns the targets with which the job has started, in the order of their numbers. Includes
  /// nodes that have failed since, but not nodes that were added later.
  [[nodiscard]] const std::vector<node>& targets() const noexcept { return targets_; }
  /// Returns node 0, the host. This process is the host itself, except on the other nodes of a job
  /// of equals.
  [[nodiscard]] node host() const noexcept;
  /// Returns the node number of this process, from 0 (the host) to size() - 1. Also works after the
  /// job was closed. Like MPI_Comm_rank.
  [[nodiscard]] node_id rank() const noexcept { return rank_; }
  /// Returns the node with the number `id`. Throws error if the job has no such node.
  [[nodiscard]] node node_at(node_id id) const;
  /// Returns how many nodes the job has had so far, including the host and nodes that have ended.
  /// Counts at most 65,536: a later node gets the place of one that has ended, and is not counted.
  /// Up to then, this is the highest node number plus one. Also works after the job was closed.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Returns the nodes that are in the job now, except the host. These nodes have joined, have not
  /// failed, and were not removed. Any thread may call it. Throws forked in a forked child.
  [[nodiscard]] std::vector<node> live_targets() const;

  /// Starts one more target, from a URL as in job_options::targets. Blocks until the target has
  /// joined, at most for the start timeout. The other nodes go on during that time, and connect to
  /// the new node when they first use it. A job can have 65,536 nodes at a time. Node numbers are
  /// never reused: the first 65,536 nodes have the numbers from 0 on, and a later node gets the
  /// place of a node that has ended, with a number that is 65,536 higher. If the place of a node
  /// that is just ending is needed, waits for its end. Targets of servers (tcp://) can be added
  /// only if the job has started with one. Any thread may call it; threads that add nodes at the
  /// same time wait for each other. If it fails, it ends the target, and throws start_failed or
  /// setting_error.
  node add(std::string_view url);
  /// Starts several targets together. A URL with count= stands for several targets. If one of the
  /// targets cannot join, all of them are ended.
  std::vector<node> add(std::span<const std::string> urls);
  /// Adds a process of this machine that exists already, like job_options::existing_targets, while
  /// the job runs. `socket` is one end of a socketpair(AF_UNIX, SOCK_SEQPACKET, …). The process
  /// passes the other end to serve_as_target(), and runs handlers on `workers` threads. The job
  /// closes `socket`, even if this function fails. Blocks until the process has joined, at most for
  /// the start timeout. `replaces` is the number of a failed node whose work the process takes
  /// over, for observers of changes (node_event::replaces). Any thread may call it, like add().
  /// Throws start_failed, setting_error, and error for a node in `replaces` that is alive.
  node add_existing(int socket, std::uint32_t workers = 1, node_id replaces = no_node);

  /// Removes a target from the job. Calls that were sent to the target end as usual. New calls
  /// throw node_failed, whose text names the removal; some calls by an fc::lane may still be made.
  /// When the calls have ended, the target's process ends. Blocks until then, at most for the stop
  /// timeout; afterwards the process is killed. The node's memory is lost. Returns at once for a
  /// target that has failed. Any thread may call it, except a thread that runs a handler for a call
  /// of that target. Throws error for the host, and for nodes without a process.
  void remove(const node& target);

  /// Restarts a target that has failed or was removed. The target is started from its URL as a new
  /// node, which has a new number. Futures, buffers and lanes of the old node stay failed. Blocks
  /// like add(), and throws what add() throws. Also throws error for a node that is alive, and for
  /// a node that the job has not started.
  node restart(const node& failed);

  /// Registers the function `f`. Until the job ends, `f(const node_event&)` is called whenever a
  /// node has joined, failed or been removed. The end of the job itself is not reported. `f` runs
  /// like a continuation, mostly on a thread of farcall. Only one call runs at a time, in the order
  /// of the changes. `f` may call other nodes, wait, and add nodes. Include
  /// offload/node_change.hpp. Any thread may call it. Throws std::bad_alloc.
  template <class F>
  void on_node_change(F f);

  /// Takes the replies that have arrived for calls of all threads, and runs the continuations of
  /// these calls on this thread. Meant for loops that also do other work, so that the program need
  /// not wait for futures or test them. Blocks only as long as the continuations run. Any thread
  /// may call it. Throws forked in a forked child. Like ucp_worker_progress.
  ///
  /// In a job of equals, the thread that made the job also serves requests in this function, up to
  /// 64 of each lane. In a handler on this thread, the function lets other handlers run.
  void progress();
  /// Does the same as progress(), and throws the same exceptions, but is faster. Meant for loops
  /// that poll again and again. May take replies in only one call in 16, or in one in 1,024 while
  /// each call finds requests. In a job of equals, handlers run on the caller's stack instead of a
  /// separate one, so the handlers should not wait: if one does, this function returns only after
  /// the wait.
  void progress_in_place();
  /// Calls progress(). Throws forked.
  void poll() { progress(); }

  /// Waits until `holds()` returns true. Takes replies during the wait, like progress(). Returns
  /// true once `holds()` has returned true, and false when `limit` has passed. The waiting thread
  /// calls `holds` repeatedly, and sleeps while nothing arrives. The result of `holds` should
  /// depend only on data that handlers and continuations change. If handlers run on other threads,
  /// `holds` is called at least every 100 µs. Any thread may call it. Throws what `holds` throws,
  /// and forked. Like GASNET_BLOCKUNTIL.
  template <class Condition>
  bool wait_until(Condition holds, time_limit limit = no_limit);
  /// Wakes the threads that are in wait_until(), so that they call `holds` again. Call it in a
  /// thread that has changed data on which the result of `holds` depends. Any thread may call it.
  /// Never blocks. Throws forked.
  void notify();

  /// Returns what this process has counted in the job so far: calls, bytes, copies and sleeps, by
  /// lane, thread and handler. Include memory/process_counters.hpp. Does not disturb other threads,
  /// and does not block. Any thread may call it. Throws error if the process has no counters.
  /// `farcall top` shows the counters of all processes. Like PAPI's software events, and MPI_T's
  /// performance variables.
  [[nodiscard]] process_counters counters() const;

  // ---- jobs of equals ----

  /// Waits until all nodes have called barrier(). Each node sends log2(size()) messages
  /// (dissemination barrier). Like all collectives, it serves requests while it waits, and does not
  /// wait for the ends of posted calls. Throws node_failed if a node of the job has failed. Throws
  /// timeout if `limit` has passed; afterwards no collective of this job can succeed, and its end
  /// ends all nodes. Throws error in plain jobs, on threads that did not make the job, in handlers,
  /// and if nodes call different collectives. Like MPI_Barrier.
  void barrier(time_limit limit = no_limit);

  /// Gives every node the bytes of all nodes: fills `all` with the bytes `mine` of each node, in
  /// the order of the node numbers. `mine` must have the same size on all nodes, and `all` must be
  /// size() times as large. Each node sends log2(size()) messages (Bruck's algorithm). Throws what
  /// barrier() throws, and error for other sizes. Like MPI_Allgather.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                  time_limit limit = no_limit);
  /// Returns the values that all nodes have passed, in the order of the node numbers.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> all_gather(const T& value, time_limit limit = no_limit) {
    std::vector<T> all(size());
    all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)), limit);
    return all;
  }

  /// Copies the bytes of the node `root` to all other nodes. `bytes` must have the same size on all
  /// nodes. The messages form a binomial tree. On `root`, this function may return before the other
  /// nodes have the bytes. Throws what barrier() throws, and error for other sizes and for a root
  /// that is no node. Like MPI_Bcast.
  void broadcast(std::span<std::byte> bytes, node_id root, time_limit limit = no_limit);

  /// Combines the values that all nodes pass, element by element, by `operation`. Every node gets
  /// the result in place of its values. The number of values must be the same on all nodes.
  ///
  /// The operation is one of fc::sum, fc::product, fc::minimum, fc::maximum, fc::bit_and,
  /// fc::bit_or, fc::bit_xor, fc::logical_and and fc::logical_or, or a callable of the program. A
  /// callable `f(const T& left, const T& right)` gets the combined value of lower nodes on the
  /// left. It must be associative, but need not be commutative. It may run on the thread that runs
  /// handlers. The operands of each operation depend only on the number of nodes, so that results
  /// are reproducible, and have the same bits on all nodes.
  ///
  /// Sends 2 log2(size()) messages of about twice the size of the values in total; for values of
  /// less than 16 KiB, log2(size()) messages of this size. Throws what barrier() throws, and what
  /// the operation throws; the other nodes then get an error with its text. Throws error if the
  /// nodes pass different sizes, types or operations. After an error, the values are undefined.
  /// Like MPI_Allreduce.
  template <reducible T, std::size_t Extent, reduces<T> Operation>
  void all_reduce(std::span<T, Extent> values, Operation operation, time_limit limit = no_limit) {
    all_reduce_by(detail::reduction_by<T>(operation), std::as_writable_bytes(values), limit);
  }
  /// Combines the values that all nodes pass, and returns the result on every node.
  template <reducible T, reduces<T> Operation>
  [[nodiscard]] T all_reduce(T value, Operation operation, time_limit limit = no_limit) {
    all_reduce(std::span(&value, 1), std::move(operation), limit);
    return value;
  }

  /// Combines values like all_reduce(), with the same result, but only the node `root` gets the
  /// result. The values of the other nodes stay as they are. These nodes may return before the
  /// others have called reduce(). Throws what all_reduce() throws, and error for a root that is no
  /// node. Like MPI_Reduce.
  template <reducible T, std::size_t Extent, reduces<T> Operation>
  void reduce(std::span<T, Extent> values, Operation operation, node_id root,
              time_limit limit = no_limit) {
    const auto bytes = std::as_writable_bytes(values);
    reduce_by(detail::reduction_by<T>(operation), bytes, bytes, root, limit);
  }
  /// Combines the values that all nodes pass, and returns the result on the node `root`. On the
  /// other nodes, returns `value`.
  template <reducible T, reduces<T> Operation>
  [[nodiscard]] T reduce(T value, Operation operation, node_id root, time_limit limit = no_limit) {
    reduce(std::span(&value, 1), std::move(operation), root, limit);
    return value;
  }

  /// Combines values like all_reduce(), but each node gets the result of the nodes up to itself, in
  /// place of its values. In jobs of up to four nodes, and for values of 16 KiB or more, each node
  /// applies the operation once, to the result of the node before and its own values. Throws what
  /// all_reduce() throws. Like MPI_Scan.
  template <reducible T, std::size_t Extent, reduces<T> Operation>
  void scan(std::span<T, Extent> values, Operation operation, time_limit limit = no_limit) {
    scan_by(detail::reduction_by<T>(operation), std::as_writable_bytes(values), limit);
  }
  /// Combines the values that the nodes up to this one pass, and returns the result.
  template <reducible T, reduces<T> Operation>
  [[nodiscard]] T scan(T value, Operation operation, time_limit limit = no_limit) {
    scan(std::span(&value, 1), std::move(operation), limit);
    return value;
  }

  /// Ends the job. The destructor, which would otherwise end it, then does nothing. In a job of
  /// equals, first waits until all nodes have called close(). This wait has no timeout, because
  /// nodes may compute for any time. Also waits until all calls that were sent, and their
  /// continuations, have ended; for handlers that wait, at most for the stop timeout. Afterwards
  /// rank() and size() still return their values, host() returns an empty node, and all other
  /// functions throw error. Call it on the thread that made the job, and not in a handler; in a job
  /// of equals, it otherwise throws error. Throws forked in a forked child. Like MPI_Finalize.
  void close();

  /// Changes job_options::survive for nodes that end from now on. Call it on the host of a job of
  /// equals; on other nodes it has no effect. Does not block. Any thread may call it. Throws error
  /// for a plain job, or a closed one.
  void survive(bool goes_on);

  /// Returns a file descriptor for poll(), epoll or an event loop. It is readable while completions
  /// may be waiting. If it is readable, call progress(), which makes it unreadable until there are
  /// more completions, and then test the futures. Both level and edge triggering work in this way.
  /// The descriptor may also be readable without a completion, because another thread may have
  /// taken the reply. It reports calls and copies of this job, and their continuations by then().
  /// It does not report promises, unless a future of the job depends on them.
  ///
  /// The job owns the descriptor, so do not read, write or close it. The first call of wait_fd()
  /// starts a thread, which sleeps while nothing arrives. Never blocks. Any thread may call it.
  /// Throws error, for instance in a job of equals without a progress thread. Throws forked in a
  /// forked child. Like ucp_worker_get_efd.
  [[nodiscard]] int wait_fd();

 private:
  /// Makes the job on its host. If there is a group, makes it together with the other processes of
  /// the group.
  void start(const job_options& options, std::vector<unique_fd> existing,
             const process_group* group, bool are_equals);
  void join_equals(const job_options& options, const process_group* group);
  bool wait_for(bool (*holds)(void*) noexcept, void* argument, time_limit limit);
  void reduce_by(const detail::reduction& how, std::span<const std::byte> mine,
                 std::span<std::byte> result, node_id root, time_limit limit);
  void all_reduce_by(const detail::reduction& how, std::span<std::byte> values, time_limit limit);
  void scan_by(const detail::reduction& how, std::span<std::byte> values, time_limit limit);
  /// Returns the state of the job. Throws error if the job was closed or moved away. Throws forked
  /// in a forked child.
  [[nodiscard]] detail::job_state& state() const;

  detail::job_state* state_ = nullptr; ///< owned
  node_id rank_ = host_id;
  std::size_t closed_size_ = 0; ///< value of size() once the job is closed
  std::vector<node> targets_;
};
FARCALL_END_CONTAINER_LAYOUT

template <class Condition>
bool job::wait_until(Condition holds, time_limit limit) {
  struct question {
    Condition& holds;
    std::exception_ptr thrown;
  } asked{holds, nullptr};
  const auto ask = [](void* argument) noexcept {
    auto& q = *static_cast<question*>(argument);
    try {
      return q.thrown != nullptr || static_cast<bool>(q.holds());
    } catch (...) {
      q.thrown = std::current_exception();
      return true;
    }
  };
  const bool is_so = wait_for(ask, &asked, limit);
  if (asked.thrown) std::rethrow_exception(asked.thrown);
  return is_so;
}

/// If this process was started as a target, serves calls until the job ends, and never returns.
/// Otherwise does nothing. Meant for programs that make their jobs late; call it first in main().
/// Throws error in a target that cannot join.
void serve_if_target();

/// If this process was started as a target, serves calls until the job ends, and returns true.
/// Otherwise returns false. Meant for programs whose targets have work to do after the job. Call it
/// first in main(), instead of serve_if_target(). Throws error in a target that cannot join.
[[nodiscard]] bool serve_as_target();

/// Makes this process a target: serves calls until the job ends, and then closes `socket`. The host
/// of the job has the other end of `socket` (job_options::existing_targets). Meant for a process
/// that has no job of its own. If the host ends first, this process ends, too. Throws error if
/// `socket` is no such socket. If this process cannot join for another reason, it ends, and the
/// host reports the reason.
void serve_as_target(int socket);

} // namespace farcall
