#pragma once

#include <farcall/am/wait_policy.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/container_layout.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/node.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace farcall {
struct process_counters;
struct process_group;
namespace detail {
struct job_state;
}

/// How a job is made. What is left as it is comes from the environment, else from the default.
/// Where the program hands its command line over, that and the environment come before all this.
struct job_options {
  /// Comma-separated URLs: "shm", "shm:4", "shm:2?workers=4&cpu=1&program=./other&name=solver",
  /// "exec:qemu-aarch64 ./other?count=2", "tcp://host:port?count=2".
  /// Else FARCALL_TARGETS, else "shm". "none" in a job of equals: the host is alone.
  std::string targets{};
  /// Processes of this machine that exist already, as those that a launcher has started, and become
  /// the last targets. One descriptor for each: an end of socketpair(AF_UNIX, SOCK_SEQPACKET, …),
  /// whose other end that process gives to serve_as_target(). The job closes them, also when it
  /// cannot be made. With them, and nothing in `targets` or FARCALL_TARGETS, no others are started.
  std::vector<int> existing_targets{};
  /// Whether the processes that mpirun, prterun, srun or mpiexec have started together make one
  /// job, the first that each of them makes: process 0 is the host, and process N node N, before
  /// what `targets` names. "auto": if they were started so; "pmix" and "pmi": by that interface;
  /// "none": each makes a job of its own. Else FARCALL_PROCESS_MANAGER, else "auto". Further nodes
  /// are started if `targets` or FARCALL_TARGETS names them, also beside a process that is alone.
  /// See docs/guide/17-clusters.md.
  std::string process_manager{};
  /// Threads that run handlers in each of them, and in each of `existing_targets`; what `targets`
  /// names has an option of its own, workers=. Else FARCALL_WORKERS, else 1. Not in a job of
  /// equals.
  std::uint32_t workers = 0;
  /// Program that targets run; else this one. It must make a job, or call serve_if_target().
  std::string program{};
  /// Arguments of the targets' program, argv[0] included; else those of this process.
  std::vector<std::string> arguments{};
  /// How long all targets together may take to join. Else FARCALL_START_TIMEOUT_MS.
  std::chrono::milliseconds start_timeout{0};
  /// How long targets may take to finish when the job ends; then they are killed. Else
  /// FARCALL_STOP_TIMEOUT_MS.
  std::chrono::milliseconds stop_timeout{0};
  /// How long the end of a buffer may wait until its node can be told, as while the lane to it is
  /// full; then the memory stays taken until the job ends, and a line is logged. Else
  /// FARCALL_RELEASE_TIMEOUT_MS.
  std::chrono::milliseconds release_timeout{0};
  /// Bytes of a lane's ring, a power of two; a record is at most a quarter. Else
  /// FARCALL_LANE_BYTES.
  std::uint32_t lane_bytes = 0;
  /// Most memory that a node can share, in bytes, taken when used. Else FARCALL_HEAP_BYTES, else
  /// as much as the machine has.
  std::uint64_t heap_bytes = 0;
  /// File with the key that servers (targets tcp:// and unix://) and this program have in common;
  /// 'farcall keygen' makes one. Else FARCALL_KEY. Without it connections are unencrypted, and go
  /// to loopback addresses and Unix sockets of the same user only.
  std::string key{};
  /// Instead of a key: certificates of one authority, as PEM files. Else FARCALL_CERTIFICATE,
  /// FARCALL_CERTIFICATE_KEY and FARCALL_AUTHORITY.
  std::string certificate{};
  std::string certificate_key{};
  std::string authority{};
  /// With certificates: which public key a server must have, "sha256:BASE64" of its
  /// SubjectPublicKeyInfo, several with commas. It stands in place of the name in the server's
  /// certificate, and of an authority where none is given. Else FARCALL_SERVER_KEY.
  std::string server_key{};
  /// A server that is silent for longer has failed, with its targets. Else
  /// FARCALL_HEARTBEAT_TIMEOUT_MS, else 5 s.
  std::chrono::milliseconds heartbeat_timeout{0};
  /// Targets of servers (tcp://) that have failed, as because their server has ended, are started
  /// again once their server takes them, as new nodes: job::on_node_change() tells of them, and
  /// which they replace. Attempts go on for some ten minutes, with pauses of up to 8 s.
  bool restart_lost_servers = false;
  /// In a job of equals: the end of a node does not end the others. Calls to it end with
  /// node_failed, and so do collectives, but for the end of the job.
  bool survive = false;
  /// A target, here or elsewhere, that does not answer the host for longer has failed, and is
  /// killed: one that is stopped (SIGSTOP, a debugger) or that hangs in the kernel. Its handlers
  /// may compute as long as they like; for those there are deadlines. Else FARCALL_PEER_TIMEOUT_MS,
  /// else targets are not asked.
  std::chrono::milliseconds peer_timeout{0};
  /// Folders, and files, of the host that targets may use, as in "/data:ro,/home/me": each read
  /// only (":ro"), or writable (":rw", or nothing behind it). See docs/guide/16-files.md. Not in a
  /// job of equals. Else FARCALL_HOST_FILES, else none.
  std::string host_files{};
  /// Each line that a target prints, to standard output or error, is preceded by the node's number,
  /// as in "2: text", and goes through this process; what existing_targets print does not. Else
  /// FARCALL_LABEL, else lines stay as they are.
  bool label = false;
  /// The report of a target that faults or aborts. "names": node_failed has the signal,
  /// the address and the functions at once. "full": the same, and then the target writes the
  /// functions with lines and arguments to its standard error, for which it takes 3 s at most.
  /// "off": nothing; node_failed has the signal. Else FARCALL_CRASH_REPORT, else "full". See
  /// docs/guide/19-debugging.md.
  std::string crash_report{};
  /// File for a timeline of what all nodes do, in the trace event format that Perfetto and browsers
  /// show; written when the job ends. "%p" in it is the number of this process. See
  /// docs/guide/18-seeing-what-a-job-does.md. Else FARCALL_TRACE, else none.
  std::string trace{};
  /// Who takes in replies on the host, and runs what waits for them: "wait", only threads that wait
  /// or test, and progress(); "thread", also a thread of farcall's, so that nobody need wait. Else
  /// FARCALL_PROGRESS, else "wait". Targets do as with "thread". In a job of equals, the same on
  /// all nodes: "wait", the thread that made the job runs handlers; "thread", one of farcall's.
  std::string progress{};
  /// How long threads spin before they sleep. Else FARCALL_SPIN_US and FARCALL_YIELD_AFTER_US.
  wait_policy waiting{std::chrono::nanoseconds(-1), std::chrono::nanoseconds(-1)};
};

/// As long as it takes.
inline constexpr time_limit no_limit{std::chrono::hours::max()};

/// How the processes that a Communicator names find each other: a specialisation has a static
/// member process_group group_of(Communicator).
template <class Communicator>
struct group_traits;

/// Says that a job is one of equals; see job.
struct spmd_t {
  explicit spmd_t() = default;
};
/// As in `fc::job job{fc::spmd, argc, argv};`
inline constexpr spmd_t spmd{};

FARCALL_BEGIN_CONTAINER_LAYOUT
/// A set of nodes that call each other: this process, the host, and the targets that it starts.
///
/// The constructor starts the same program again for every target. There, the constructor serves
/// calls until the job ends and never returns, so make the job first in main(), before anything
/// that only the host shall do. The destructor lets the targets finish what has arrived, and ends
/// them. What outlives its job (futures, buffers, lanes, nodes) may be destroyed, and futures hold
/// node_failed; nothing else may be done with it. Several jobs may exist at a time. Any thread may
/// use a job; one makes, moves and destroys it.
///
/// In a *job of equals* (fc::spmd), every node runs its own main(), as in MPI and other SPMD
/// programs: the constructor returns on all of them. Handlers run on the thread that made the job,
/// while it waits for something of farcall's and in progress(), unless `progress` is "thread". All
/// nodes call the collectives, barrier() and the like, on that thread and in the same order. The
/// destructor, or close(), is one, too: the job ends once all have called it and nothing is under
/// way any more. A node that ends before, by whatever way, ends the others, with its exit status,
/// unless job_options::survive says otherwise; so does one that leaves the job by an exception.
/// What follows the job's end runs on all nodes; at exit(), the host waits for the others, and
/// exits with the status of one that failed. A process can have one such job, and makes it first in
/// main(). See docs/guide/14-jobs-of-equals.md.
class job {
 public:
  /// Starts the targets that the environment names, or one. Throws start_failed and setting_error.
  job();
  /// The same with these options, which come before the environment. Throws the same.
  explicit job(const job_options& options);
  /// Takes the options that start with --farcall- out of the command line. They, and then the
  /// environment, come before `options`. `--farcall-help` prints them and exits.
  job(int& argc, char** argv, const job_options& options = {});
  /// A job of equals: the host starts the others, which return from here, too. Throws the same; and
  /// setting_error for devices, existing targets, and targets with more than one worker.
  explicit job(spmd_t, const job_options& options = {});
  /// The same with the options of a command line.
  job(spmd_t, int& argc, char** argv, const job_options& options = {});
  /// A job of equals whose processes exist already, as those of an MPI communicator: all of them
  /// make it together. Process 0 is the host. Blocks until all do. Throws the same. In
  /// job/process_group.hpp.
  job(spmd_t, const process_group& group, const job_options& options = {});
  /// The same from what a header names processes by, as in `fc::job job{MPI_COMM_WORLD};` with
  /// farcall/mpi.hpp.
  template <class Communicator>
    requires requires(const Communicator& c) { group_traits<Communicator>::group_of(c); }
  explicit job(const Communicator& c, const job_options& options = {})
      : job(spmd, group_traits<Communicator>::group_of(c), options) {}
  job(job&& other) noexcept;
  job& operator=(job&& other) noexcept;
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job();

  /// The nodes that the job has started with, but for the host, in the order of their numbers; also
  /// those that have failed since, and not those that were added.
  [[nodiscard]] const std::vector<node>& targets() const noexcept { return targets_; }
  /// Node 0: this process, but for targets in a job of equals.
  [[nodiscard]] node host() const noexcept;
  /// Number of this process in the job: from 0, the host, to size() - 1; also once it is closed. As
  /// MPI_Comm_rank.
  [[nodiscard]] node_id rank() const noexcept { return rank_; }
  /// Throws error when the job has no such node.
  [[nodiscard]] node node_at(node_id id) const;
  /// Number of nodes that the job has had, the host included: one more than the highest number;
  /// also once it is closed.
  [[nodiscard]] std::size_t size() const noexcept;
  /// All nodes but the host that have joined, and have not failed and were not removed, as of now.
  /// Any thread. Throws forked in a child of a fork.
  [[nodiscard]] std::vector<node> live_targets() const;

  /// Starts one more target, from a URL as in job_options::targets; blocks until it has joined, at
  /// most for the start timeout. The other nodes go on meanwhile, and get to know it when they
  /// first use it. A number is given to one node only, so there are at most as many as the larger
  /// of 1,024 and twice the nodes at the start. Servers (tcp://) can be added to jobs that have
  /// started with one. Any thread; those that add at the same time wait for each other. Throws
  /// start_failed and setting_error; nothing is left of the target then.
  node add(std::string_view url);
  /// The same for several, which are started together; a URL may stand for several targets. All of
  /// them have joined then, or none is left.
  std::vector<node> add(std::span<const std::string> urls);

  /// Takes a target out of the job: calls that were sent to it end as usual, and new ones, but for
  /// some by an fc::lane, throw node_failed, which says so. Then its process ends. Blocks until it
  /// has, at most for the stop timeout, after which it is killed. Its memory is lost. Returns
  /// at once for one that has failed. Any thread but those that run handlers of that target's
  /// calls. Throws error for the host, and for nodes without a process.
  void remove(const node& target);

  /// Starts a target again that has failed or was removed, from its URL: as a new node, with a
  /// number of its own. Futures, buffers and lanes of the old one stay failed. Blocks and throws as
  /// add(), and throws error for a node that is alive, or that the job has not started.
  node restart(const node& failed);

  /// Has `f(const node_event&)` called whenever a node has joined, failed or been removed, from now
  /// until the job ends; the end of the job itself is no such event. `f` runs where continuations
  /// do, mostly on a thread of farcall's, one call at a time, in the order of the changes; it may
  /// call, wait, and add nodes. In offload/node_change.hpp. Any thread. Throws std::bad_alloc.
  template <class F>
  void on_node_change(F f);

  /// Takes in the replies that have arrived, to calls of all threads, and runs on this thread what
  /// waits for them. For loops that do other things too: nobody need wait or test then. Blocks only
  /// as long as what it runs. Any thread. Throws forked in a child of a fork. As
  /// ucp_worker_progress.
  ///
  /// In a job of equals, on the thread that made it, also serves requests that have arrived: of
  /// each lane up to 64. In a handler there, gives others their turn.
  void progress();
  /// As progress(), and throws the same, for loops that poll again and again. In a job of equals,
  /// handlers of what has arrived run on the caller's stack instead of one of their own, which
  /// takes less time: for handlers that do not wait. One that does keeps this from returning until
  /// its wait is over. Replies are taken in by one call in 16, and by one in 1,024 as long as each
  /// finds requests.
  void progress_in_place();
  /// As progress(), and throws the same. Throws forked.
  void poll() { progress(); }

  /// Waits until `holds()` is true, and takes in replies meanwhile, as progress() does; true then,
  /// and false when `limit` has passed. `holds` is asked again and again on this thread: about what
  /// handlers and continuations change. Sleeps when nothing happens; where handlers run on other
  /// threads, it is asked every 100 µs. Any thread. Throws what `holds` throws, and forked. As
  /// GASNET_BLOCKUNTIL.
  template <class Condition>
  bool wait_until(Condition holds, time_limit limit = no_limit);
  /// Has those that wait in wait_until() ask again: for threads that change what `holds` is about.
  /// Any thread. Never blocks. Throws forked.
  void notify();

  /// What this process has counted until now of its part in the job: calls, bytes, copies, sleeps,
  /// by lane, thread and handler. In memory/process_counters.hpp. Disturbs nobody, and does not
  /// block. Any thread. Throws error where the process could have no counters. `farcall top` shows
  /// those of all processes. As PAPI's software events, and MPI_T's performance variables.
  [[nodiscard]] process_counters counters() const;

  // ---- jobs of equals ----

  /// Waits until all nodes have called it. A dissemination barrier: each node sends log2(size())
  /// messages. Like all collectives, serves requests meanwhile, does not wait for calls that were
  /// posted, and throws node_failed when a node of the job has failed, timeout when `limit` has
  /// passed (the job can then have no more collectives, and its end ends all nodes), and error in
  /// plain jobs, on other threads than the one that made the job, in handlers, and where nodes call
  /// different collectives. As MPI_Barrier.
  void barrier(time_limit limit = no_limit);

  /// Fills `all` with the bytes of all nodes, in the order of their numbers; `mine` is as long on
  /// all nodes, and `all` size() times as long. Bruck's algorithm: log2(size()) messages of each
  /// node. Throws as barrier(), and error for other lengths. As MPI_Allgather.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                  time_limit limit = no_limit);
  /// The same for one value: returns those of all nodes.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> all_gather(const T& value, time_limit limit = no_limit) {
    std::vector<T> all(size());
    all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)), limit);
    return all;
  }

  /// Fills `bytes` on all nodes with those of `root`; they are as many on all nodes. A binomial
  /// tree. `root` may return before others have them. Throws as barrier(), and error for other
  /// lengths, and a root that is no node. As MPI_Bcast.
  void broadcast(std::span<std::byte> bytes, node_id root, time_limit limit = no_limit);

  /// Ends the job as the destructor does, which then does nothing. In a job of equals, waits until
  /// all nodes have called it, without a bound, since they compute as long as they like, and until
  /// all that was sent, and what follows it, was served; for handlers that wait, at most for the
  /// stop timeout. Afterwards only rank() and size() say something; host() is no node, and all else
  /// throws error. On the thread that made the job, not in handlers; throws error elsewhere, and
  /// forked. As MPI_Finalize.
  void close();

  /// As job_options::survive, for ends of nodes from now on. On the host of a job of equals;
  /// elsewhere it does nothing. Does not block. Any thread. Throws error for a plain job, or one
  /// that was closed.
  void survive(bool goes_on);

  /// A descriptor for poll(), epoll or an event loop, readable while completions may wait. Whoever
  /// finds it so calls progress(), which makes it unreadable until there is more, and then asks its
  /// futures. So it may be watched by level and by edge. It may be readable for nothing: another
  /// thread may have taken the reply. It tells of calls and copies of this job, and of what follows
  /// them by then(); not of promises before anything of the job depends on them.
  ///
  /// Belongs to the job: do not read, write or close it. The first call starts a thread, which
  /// sleeps but for such moments. Never blocks. Any thread. Throws error, as in a job of equals
  /// without a progress thread, and forked in a child of a fork. As ucp_worker_get_efd.
  [[nodiscard]] int wait_fd();

 private:
  /// The group, if there is one, makes the job together.
  void start(const job_options& options, std::vector<unique_fd> existing,
             const process_group* group, bool are_equals);
  void join_equals(const job_options& options, const process_group* group);
  bool wait_for(bool (*holds)(void*) noexcept, void* argument, time_limit limit);
  /// Throws error where there is none any more, and forked.
  [[nodiscard]] detail::job_state& state() const;

  detail::job_state* state_ = nullptr; ///< owned
  node_id rank_ = host_id;
  std::size_t closed_size_ = 0; ///< size() once it is closed
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

/// In a process that was started as a target, serves the job and never returns; elsewhere does
/// nothing. For programs that make their jobs late: call it first in main(). In a target, throws
/// error when it cannot join.
void serve_if_target();

/// In a process that was started as a target, serves the job until it ends; true then. For programs
/// whose targets have something to do afterwards. Call it first in main(), instead of the above.
/// Throws the same.
[[nodiscard]] bool serve_as_target();

/// Serves the job of the host that has the other end of `socket` (job_options::existing_targets)
/// until it ends, and closes the socket. In a process that has no job and makes none. When the host
/// ends first, so does this process. Throws error for a descriptor that is none of such a socket;
/// a process that cannot join for another reason ends, and the host says why.
void serve_as_target(int socket);

} // namespace farcall
