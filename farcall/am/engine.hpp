#pragma once

#include <farcall/am/client.hpp>
#include <farcall/am/completion_descriptor.hpp>
#include <farcall/am/completion_thread.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/progress_thread.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/am/stop_sender.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/am/wait_policy.hpp>
#include <farcall/am/worker.hpp>
#include <farcall/am/worker_group.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

/// Active messages between the nodes of one job, as seen from one of them: lanes per thread,
/// workers that run handlers, waiting, and what happens when a node fails.
namespace farcall::am {

/// Another node's bytes that can be read here: in place, or a copy that this object owns.
struct remote_bytes {
  const std::byte* data = nullptr;
  std::unique_ptr<std::byte[]> copy;
};

struct engine_options {
  node_id self = 0;
  std::size_t nodes = 1; ///< numbers of nodes are below it, also of those that join later
  /// Makes a node known, by set_route() or set_unreachable(), before it returns. For the first use
  /// of one that is not. Throws what the caller is to be told. None: there are no others.
  std::function<void(node_id, time_point deadline)> meet;
  /// The connection of a lane to that node has ended, although the node has not as far as is known.
  /// What was sent in it may have arrived or not, and of what needs no answer nobody is told. On
  /// the thread for continuations. None: nothing is done.
  std::function<void(node_id)> lane_lost{};
  std::uint32_t workers = 1;
  /// Handlers run on the first worker only: lanes have no workers of their own. So on all nodes.
  bool has_one_worker = false;
  wait_policy waiting;
  /// Of workers, where threads of the user's need the processors more.
  std::optional<wait_policy> waiting_of_workers;
  /// The first worker takes in the replies to calls of all threads, and runs what waits for them,
  /// while it has nothing else to do: nobody need wait for them.
  bool progresses = false;
  std::vector<handler> handlers; ///< user handlers; their keys count from first_user_key
  std::span<doorbell> doorbells; ///< of this node, reachable for peers
  std::shared_ptr<shared_heap> heap;
  std::shared_ptr<counter_segment> counters{}; ///< null: nobody reads what is counted
  const void* context = nullptr;               ///< for the layers below
  trace::recorder* recorder = nullptr;         ///< null: nothing is recorded
};

class engine final : public client,
                     public std::enable_shared_from_this<engine>,
                     private fork_observer {
 public:
  explicit engine(engine_options o);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine() override;

  [[nodiscard]] std::size_t nodes() const noexcept { return options_.nodes; }
  [[nodiscard]] shared_heap& heap() const noexcept { return *options_.heap; }
  [[nodiscard]] const std::shared_ptr<counter_segment>& counters() const noexcept {
    return options_.counters;
  }
  /// Of the calling thread, to which they are given on first use; null where it can have none.
  [[nodiscard]] thread_counters* counters_of_thread() noexcept;
  [[nodiscard]] worker_counters& counters_of_first_worker() const noexcept {
    return workers_.front()->counters();
  }
  /// Of what its threads do; null where nothing is recorded.
  [[nodiscard]] trace::recorder* recorder() const noexcept { return options_.recorder; }
  /// Keys of handlers are below it.
  [[nodiscard]] std::size_t handler_keys() const noexcept { return handlers_.size(); }
  /// From the heap; out_of_memory names this node.
  [[nodiscard]] std::byte* allocate_block(std::uint64_t bytes);
  [[nodiscard]] const wait_policy& waiting() const noexcept { return options_.waiting; }

  // ---- nodes; each is set once, before it is used, also while others are ----

  /// Reaches `node` by `t`, which outlives the engine. `workers` is how many the node has.
  void set_route(node_id node, transport& t, std::uint32_t workers);
  /// There is no route to `node`; calls to it throw error with `why`.
  void set_unreachable(node_id node, const std::string& why);

  // ---- set-up, before the first call ----

  /// Every transport through which lanes may arrive.
  void listen(transport& t);

  // ---- calls ----

  // What client says, without the step through it.
  [[nodiscard]] requester& open_own_lane(node_id node, time_point deadline = no_deadline);
  [[nodiscard]] requester& open_lane(node_id node, time_point deadline = no_deadline);
  void retire(requester& l) noexcept;
  [[nodiscard]] std::byte* wait_for_space(requester& l, std::uint32_t bytes, time_point deadline);
  [[nodiscard]] bool spin_for_reply(completion& c, reply_count expected) noexcept;
  [[nodiscard]] bool wait(completion& c, time_point deadline = no_deadline);
  [[nodiscard]] bool wait_alone(pending_call& c, time_point deadline);
  void poll(completion& c);
  /// poll() for all calls, of all threads; on a thread that has called attach(), also serves what
  /// has arrived. Throws forked.
  void poll_all();
  /// The same, but requests that have arrived are served on the caller's stack, for less: a handler
  /// that waits keeps the caller until its wait is over. Replies are taken in by some of its
  /// calls only.
  void poll_all_in_place();
  /// Waits until `holds(argument)`, which is asked on the calling thread again and again. False
  /// when the deadline passed. Unless `is_notified`, it may change at any time; else by what runs
  /// on the calling thread, by replies, and before notify_local(). Throws forked.
  [[nodiscard]] bool wait_until(bool (*holds)(void* argument) noexcept, void* argument,
                                bool is_notified, time_point deadline);
  /// A descriptor that is readable while completions may wait for poll_all(), which makes it
  /// unreadable. The engine's own; the first call starts a thread. Throws error.
  [[nodiscard]] int wait_fd();
  /// Runs continuations on a thread of its own that nobody depends on.
  [[nodiscard]] continuation_sink& other_thread() noexcept { return completions_; }

  // ---- service ----

  /// Requests wait for the worker whose handler the calling thread runs; false elsewhere.
  [[nodiscard]] bool has_requests() const noexcept;
  /// Runs worker `index` on the calling thread until stop().
  void serve(std::uint32_t index);
  /// The calling thread, one of the program's, is the first worker from now on: it serves requests
  /// while it waits, and in poll_all(). Instead of serve(0). Throws error where it runs handlers
  /// already.
  void attach();
  /// It is not any more. On the same thread, outside handlers.
  void detach() noexcept;
  [[nodiscard]] bool is_attached() const noexcept {
    return attached_ && fiber_scheduler::mine() == attached_.get();
  }
  /// A thread has called attach().
  [[nodiscard]] bool is_served_by_caller() const noexcept { return attached_ != nullptr; }
  /// The calling thread runs a handler.
  [[nodiscard]] static bool is_in_handler() noexcept;
  /// Makes all serve() calls return once the requests that have arrived are done. Any thread; once
  /// is enough.
  void stop() noexcept;
  /// The same, and once the handlers that have returned without a reply have given theirs.
  void stop_when_done() noexcept;
  /// Starts serve() for workers [first, workers) on threads of their own, and the thread that
  /// accepts lanes while workers are busy.
  void start_workers(std::uint32_t first);

  [[nodiscard]] const handler* find_handler(handler_key key) const noexcept {
    return key < handlers_.size() && handlers_[key].run != nullptr ? &handlers_[key] : nullptr;
  }

  /// Bytes in `peer`'s memory. Throws node_failed or malformed_message when they cannot be had.
  [[nodiscard]] remote_bytes read_remote(node_id peer, std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] farcall::rma_engine* rma_engine_for(node_id peer) const noexcept;

  // ---- calls that are stopped ----

  /// Those that run here, or are to come.
  [[nodiscard]] stoppable_calls& stoppable() const noexcept { return *stoppable_; }
  /// Sends it to `node`, soon; see stop_sender.
  void send_stop(node_id node, const stop_message& what) noexcept { stops_.send(node, what); }
  /// False when there is no space now. For the thread that sends them; does not wait.
  [[nodiscard]] bool try_send_stop(node_id node, const stop_message& what) noexcept;

  // ---- failure ----

  /// The node takes no more part: ends all calls to it with node_failed, whose text is `why`.
  void fail(node_id node, const std::string& why);
  /// Of one of the lanes to the node, by its user.
  void note_lost_lane(node_id node) noexcept;
  [[nodiscard]] bool has_failed(node_id node) const noexcept;
  /// What tells of that, for the engine's life; null for a node that it knows nothing of.
  [[nodiscard]] const std::atomic<bool>* failed_flag(node_id node) const noexcept;
  /// Null while the node is well.
  [[nodiscard]] std::exception_ptr failure_of(node_id node) const;

  /// The node will be told to end: calls that were made go on, and new ones throw node_failed with
  /// `why`. Those that other threads are about to make may still be sent.
  void refuse_calls_to(node_id node, const std::string& why);

  /// Waits until peers, or one of them, have begun all calls that were made, at most until
  /// `deadline`. Where bytes take a while to arrive, a peer that is told to end by other means
  /// would miss some.
  void drain(time_point deadline, node_id only = no_node) noexcept;

  /// Waits until what has arrived here was served to its end, and all that was sent from here has
  /// begun where it went, at most until `deadline`. False when nothing was sent since the last
  /// time. For jobs whose nodes end together: when it is false on all of them, in a round that
  /// begins once all have ended the one before, no call is under way.
  [[nodiscard]] bool settle(time_point deadline);

  /// Ends every outstanding call with `why` and joins the workers. False when a handler or a
  /// continuation has not returned until `deadline`: then the engine, and all that it uses, must
  /// stay.
  bool shut_down(const std::string& why, time_point deadline = no_deadline);
  /// Before shut_down(), where requests that have arrived shall still be served: waits until the
  /// workers have, and have ended.
  void finish();

  /// A local event was completed: wakes threads that wait for such events.
  void notify_local() noexcept {
    notify_if_armed(local_doorbell_);
    signal_completion();
  }

  /// A reply was given by a thread that is perhaps not its lane's worker, which then has to know
  /// that the reply found no space, or that it need not wait for it any more.
  void deferred_reply_was_sent(bool is_blocked) noexcept;

  /// A closed lane cannot be given back, because a handler waits, perhaps on another worker; asked
  /// before it is looked at whether one does. That one's worker calls the other behind the wait.
  void awaits_reclaim() noexcept;
  void wait_has_ended() noexcept;

  struct thread_lanes_return; ///< gives thread lanes back when their thread ends

 private:
  friend class worker;

  struct peer {
    // Constant once `is_known` is true.
    transport* via = nullptr;
    std::uint32_t workers = 1;
    std::string why_unreachable; ///< why `via` is null
    std::atomic<bool> is_known{false};
    struct {
      requester* lane = nullptr;
      bool is_shared = false; ///< with calls of threads, since there was no other
    } stops;                  ///< how it is told of them; for the thread that does so
    std::atomic<bool> failed{false};
    std::exception_ptr why; ///< guarded by mutex_ until failed, constant afterwards
    std::atomic<bool> refuses{false};
    std::exception_ptr why_refused; ///< constant once `refuses` is true
  };

  /// A worker of one lane, with its thread.
  struct lane_worker {
    std::unique_ptr<worker> serving;
    std::thread thread;
    std::atomic<bool> done{false};
  };

  // NOLINTBEGIN(cppcoreguidelines-virtual-class-destructor): these are final
  class reply_wait;
  class event_wait;
  class state_wait;
  class space_wait;
  class lane_wait;
  class own_replies_wait;
  class requests_wait;
  // NOLINTEND(cppcoreguidelines-virtual-class-destructor)
  /// What a thread sleeps on that waits for replies to calls of all threads.
  class any_reply {
   public:
    explicit any_reply(engine& e) noexcept : engine_(e) {}
    void add_doorbells(std::vector<doorbell*>& to);
    /// As wait_condition::look_again().
    [[nodiscard]] bool look_again();

   private:
    engine& engine_;
    std::uint32_t thread_lanes_seen_ = 0;
  };
  // NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
  class worker_sleep;
  class descriptor_wait;

  void trace_handlers();
  [[noreturn]] void throw_unreachable(node_id node) const;
  /// Null for one that is not known.
  [[nodiscard]] peer* known(node_id node) const noexcept {
    peer* const p = peers_.find(node);
    // Acquire; partner: the release store in set_route() and set_unreachable().
    return p != nullptr && p->is_known.load(std::memory_order_acquire) ? p : nullptr;
  }
  /// One that has a route; on first use, that is found. Throws what open_lane() throws.
  [[nodiscard]] peer& reach(node_id node, time_point deadline);
  requester& open_on(node_id node, std::uint32_t doorbell, bool own_worker, time_point deadline);
  /// Opens a lane, and waits for one where all are taken.
  [[nodiscard]] endpoint wait_for_lane(node_id node, const lane_shape& shape, time_point deadline);
  /// Nothing while one that was closed is to come. Throws what open_lane() throws.
  [[nodiscard]] std::optional<endpoint> try_open(node_id node, const lane_shape& shape);
  [[nodiscard]] bool is_lane_to_come(node_id node);
  thread_lanes& own_lanes();
  thread_lanes& take_thread_lanes();
  void give_back(thread_lanes& p) noexcept;
  void after_fork_in_child() noexcept override;
  void reap_retired() noexcept;
  /// The same; returns what is to run then.
  [[nodiscard]] continuation_list reap() noexcept;

  /// Nodes from `first` to before `end`, together. Returns what is to run then.
  [[nodiscard]] continuation_list fail_range(node_id first, node_id end, const std::string& why);

  void pump_all(bool others) noexcept;
  /// Takes the replies in that are there for calls of this thread; true when there were any.
  bool pump_own() noexcept;
  [[nodiscard]] bool has_own_replies(bool arming) noexcept;
  /// What is notified of them.
  void add_own_doorbells(std::vector<doorbell*>& to);
  void arm_all() noexcept;
  /// Something has become ready that another thread may be told of by wait_fd().
  void signal_completion() noexcept;
  /// Sends a call that does nothing, behind the others of its lane; gives it back, and returns
  /// false, when it cannot be sent. `sent` becomes the position behind it.
  [[nodiscard]] bool send_fence(pending_call& fence, time_point deadline,
                                std::uint64_t& sent) noexcept;
  /// A call for send_fence() in each lane of which `wants` is true.
  template <class Wants>
  [[nodiscard]] std::vector<pending_call*> take_fences(const Wants& wants) noexcept;
  void send_fences(std::vector<pending_call*> fences, time_point deadline) noexcept;
  /// No handler of the attached thread, or of workers, has begun and not ended, or is to begin.
  [[nodiscard]] bool has_served_all() noexcept;
  /// Serves what has arrived, on the attached thread.
  void serve_attached();
  /// A cheap look shows nothing that poll_all() would do on the attached thread. Now and then it
  /// does not look, and is false.
  [[nodiscard]] bool is_quiet() noexcept;
  /// For poll_all_in_place(): there may be more to do than to serve requests.
  [[nodiscard]] bool needs_whole_look(const worker& w) noexcept;
  template <class Condition>
  void wait_for(Condition& c);
  template <class Condition>
  void wait_on_own_stack(Condition& c);
  static bool serve_some(worker& w, fiber_scheduler& fibers) noexcept;
  /// Runs queued continuations; where a fiber can be had, on one, so that one that waits keeps
  /// nobody.
  static void run_queued(fiber_scheduler* fibers) noexcept;
  /// What waited in handlers, and what waits for replies, goes on; true when there was something.
  static bool go_on(fiber_scheduler& fibers) noexcept;
  /// Sleeps until there may be something to do for one of these, or for a suspended fiber.
  void sleep(std::initializer_list<wait_condition*> for_what, fiber_scheduler* fibers);
  /// The lane to `node` of a thread that has ended; null where there is none.
  [[nodiscard]] requester* take_idle_lane(node_id node);
  /// Closes one that no other thread shares, for open_lane(). False when there is none.
  [[nodiscard]] bool retire_idle_lane(node_id node) noexcept;
  /// The lane of other threads that fewest use; null where there is none. Throws nothing.
  [[nodiscard]] requester* share_lane(node_id node) noexcept;
  /// Takes a lane that has lost its connection from the calling thread's.
  void drop_lost(thread_lanes& own, node_id node) noexcept;
  [[nodiscard]] bool has_replies();
  static void take_stop(request_context& request, const void* context) noexcept;
  /// Opened on first use. Throws what open_lane() throws.
  [[nodiscard]] requester& lane_for_stops(node_id node);
  /// The node has failed: has its calls that have begun here told, in what is appended to `due`.
  void tell_calls_of(node_id node, continuation_list& due);
  void accept_lanes() noexcept;
  /// Of transports that have one. For threads that wait; before a sleep with arm_drivers().
  void poll_drivers() noexcept {
    for (lane_driver* const driver : drivers_)
      driver->progress();
  }
  void arm_drivers() noexcept {
    poll_drivers();
    for (lane_driver* const driver : drivers_)
      driver->arm();
  }
  /// Gives lanes back that could not be served, once their openers have closed them.
  void close_refused() noexcept;
  void refuse_arrival(transport& via, endpoint& c, std::string_view why) noexcept;
  [[nodiscard]] bool arrivals_changed() const noexcept {
    for (const auto& l : listeners_) {
      // Acquire; partner: the release additions of whoever opens a lane, and of accept_lanes().
      if (l->arrivals->load(std::memory_order_acquire) != l->seen.load(std::memory_order_acquire))
        return true;
    }
    return false;
  }
  void adopt(transport& via, const endpoint& c);
  void run_worker(worker& w, bool until_empty);
  [[nodiscard]] bool progresses(const worker& w) const noexcept {
    return options_.progresses && &w == workers_.front().get();
  }
  /// The engine finishes, and handlers of the worker will still reply.
  [[nodiscard]] bool is_owed_replies(const worker& w) const noexcept;
  /// Gives closed lanes of a worker back; returns how many are left.
  std::size_t reclaim(worker& w) noexcept;
  /// See worker::give_back().
  void give_back_lanes(worker& w, bool all) noexcept;
  void accept_until_stopped();
  enum class runs_handlers : bool { no, yes };
  /// A thread that join_threads() waits for. Throws std::system_error.
  template <class F>
  [[nodiscard]] std::thread make_thread(F run, runs_handlers handlers);
  /// False when one has not ended until `deadline`; then they go on by themselves.
  bool join_threads(time_point deadline = no_deadline) noexcept;
  void let_threads_go() noexcept;
  // Doorbells: those of the workers, those of calling threads, those of lanes' own workers, and
  // last that of the thread that accepts lanes, where transports know it to be. Lanes that share a
  // doorbell wake each other for nothing; all nodes have equally many doorbells.
  [[nodiscard]] std::uint32_t acceptor_doorbell() const noexcept {
    return static_cast<std::uint32_t>(options_.doorbells.size()) - 1;
  }
  [[nodiscard]] std::uint32_t lane_doorbells() const noexcept {
    return static_cast<std::uint32_t>(options_.doorbells.size()) / 4;
  }
  [[nodiscard]] std::uint32_t first_lane_doorbell() const noexcept {
    return acceptor_doorbell() - lane_doorbells();
  }
  void notify_lane_workers() noexcept;

  /// Iterations of an idle worker between two looks at the lanes of others: some tens of
  /// microseconds, so that the lines that it reads seldom have to go back to whom they belong.
  static constexpr unsigned take_over_interval = 512;

  /// Polls in place of which one does what the others do not.
  static constexpr unsigned whole_look_interval = 16;
  /// The same where there are requests each time.
  static constexpr unsigned longest_look_interval = 1024;

  /// How long a caller of a full lane, or a worker whose replies find no space, sleeps at a time:
  /// nobody notifies it of space.
  static constexpr std::chrono::microseconds space_interval{100};

  static inline constinit thread_local worker* current_worker_ = nullptr;
  static inline constinit thread_local const engine* thread_of_ = nullptr; ///< see make_thread()
  /// Of poll_all() on this thread.
  static inline constinit thread_local const engine* progressing_ = nullptr;

  engine_options options_;
  sigset_t signals_at_start_{}; ///< what the thread that has called start_workers() blocks
  std::vector<handler> handlers_;
  std::vector<responder::traced_handler> traced_; ///< what stands for these where they are recorded
  node_table<peer> peers_;

  struct listener {
    transport* via;
    const std::atomic<std::uint32_t>* arrivals;
    std::atomic<std::uint32_t> seen;
  };
  std::vector<std::unique_ptr<listener>> listeners_;
  std::vector<lane_driver*> drivers_; ///< of transports that have one; mostly none
  std::mutex accept_mutex_;

  std::vector<std::unique_ptr<worker>> workers_; ///< as many as asked for
  std::atomic<bool> awaits_reclaim_{false};
  worker_group sharing_{workers_, accept_mutex_, options_.doorbells[acceptor_doorbell()]};
  std::list<lane_worker> lane_workers_;                  ///< one per lane that asked; accept_mutex_
  std::vector<std::pair<transport*, endpoint>> refused_; ///< accept_mutex_
  std::vector<std::thread> threads_;                     ///< mutex_
  std::mutex running_mutex_;
  std::condition_variable thread_ended_;
  std::uint32_t running_ = 0;               ///< threads; running_mutex_
  std::optional<progress_thread> progress_; ///< while the workers run
  std::atomic<bool> stopping_{false};
  std::atomic<bool> finishing_{false};      ///< stopping, and what was called is to end
  std::atomic<bool> oversubscribed_{false}; ///< see spin_wait

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<requester>> lanes_;
  std::vector<std::unique_ptr<thread_lanes>> thread_lanes_;
  std::vector<thread_lanes*> idle_thread_lanes_;
  std::vector<requester*> retired_;
  std::uint32_t next_doorbell_;
  std::atomic<std::uint32_t> thread_lanes_made_{0}; ///< a new one has a doorbell of its own
  std::atomic<std::uint32_t> next_worker_{0};
  std::atomic<std::uint32_t> next_lane_doorbell_{0};

  std::unique_ptr<fiber_scheduler> attached_;         ///< of the thread that has called attach()
  worker* attached_worker_ = nullptr;                 ///< the first, while a thread is attached
  unsigned quiet_polls_ = 0;                          ///< of that thread, in a row
  unsigned polls_in_place_ = 0;                       ///< of that thread
  std::atomic<bool> moves_bytes_{false};              ///< some lanes have had drivers
  std::map<const requester*, std::uint64_t> settled_; ///< up to where settle() knows; mutex_

  doorbell local_doorbell_;
  std::atomic<completion_descriptor*> descriptor_{nullptr}; ///< owned; see wait_fd()
  completion_thread completions_{local_doorbell_};
  counted_ptr<stoppable_calls> stoppable_{new stoppable_calls};
  stop_sender stops_{*this};
};

/// The engine behind a client.
[[nodiscard]] inline engine& engine_of(client& c) noexcept { return static_cast<engine&>(c); }

} // namespace farcall::am
