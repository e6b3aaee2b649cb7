#include <farcall/async/job_registry.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/job/started_target.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_end.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>
#include <farcall/offload/serve_hosts.hpp>
#include <farcall/offload/uncaught_settings.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace farcall {

namespace {

using detail::job_registry;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Exit status of a target that cannot join its job. The host reports the reason.
constexpr int cannot_join_status = 70;

/// On a host, and in a job of equals: the maximum time for which a thread that runs handlers polls
/// for the next request before it sleeps. A target that has got the result of a call sends its next
/// request within about this time.
constexpr std::chrono::nanoseconds max_spin_of_hosts = microseconds(50);

program_identity identity() {
  return {program_image::instance().build(), function_registry::instance().digest()};
}

/// Writes to the log by which transport the host reaches another node. Writes one line for each
/// node.
void log_route(const card& c, const route& r) {
  if (!log::enabled(log::level::info)) return;
  std::string line = node_text(c.id);
  if (c.name != line) line += " (" + c.name + ")";
  line += ", process " + std::to_string(c.pid) + " on " + c.host + ", ";
  line += r.via == nullptr ? "has no route" : "is reached by " + std::string(r.via->scheme());
  log::info(line + ": " + r.reason);
}

/// Enters a node that this process now knows into its tables, so that calls to the node and from it
/// become possible.
void take_in(detail::job_state& state, const card& c, const route& r) {
  const node_id self = state.members->self();
  if (self == host_id && c.id != self) log_route(c, r);
  state.functions->add(c, r.via);
  detail::describe_peer(state, c, r);
  if (r.via == nullptr) {
    state.engine->peers().set_unreachable(c.id, r.reason);
  } else {
    state.engine->peers().set_route(c.id, *r.via, c.workers);
  }
}

/// Makes those parts of this process's job for which the members must exist already.
void set_up(detail::job_state& state, const detail::forwarded_settings& forwarded,
            bool progresses) {
  if (forwarded.are_equals) {
    state.as_equals = std::make_unique<detail::equals>();
    state.as_equals->stop_timeout = forwarded.stop_timeout;
  }
  const members& m = *state.members;
  const wait_policy& waiting = forwarded.waiting;
  state.copies->release_timeout = forwarded.release_timeout;
  state.context.job = static_cast<detail::job_core*>(&state);
  state.context.messages = &state.messages;
  state.mark = forwarded.job_mark;

  am::engine_options o;
  o.self = m.self();
  o.nodes = m.capacity();
  o.meet = [&m](node_id node, time_point deadline) { m.meet(node, deadline); };
  o.workers = m.card_of(m.self()).workers;
  o.waiting = waiting;
  o.has_one_worker = forwarded.are_equals;
  // Only in a job of equals, report each lane whose connection was lost. In a plain job this is not
  // needed: the host waits for the ends of targets, and calls that wait for a reply fail without
  // this report.
  if (forwarded.are_equals) {
    o.lane_lost = [&state](node_id node) {
      state.on_side([node](auto& side) { side.note_lost_lane(node); });
    };
  }
  // On a host, and in a job of equals, let worker threads spin for a shorter time, because the
  // program's own code needs the processors.
  if (m.self() == host_id || forwarded.are_equals) {
    o.waiting_of_workers = {std::min(waiting.spin, max_spin_of_hosts), waiting.yield_after};
  }
  o.progresses = progresses;
  o.handlers = key_resolver::handlers();
  o.doorbells = m.doorbells();
  o.heap = m.heap();
  o.context = &state.context;
  o.counters = state.counters = detail::make_counters(m);
  if (forwarded.is_traced && !state.trace) state.trace = detail::job_trace::on_target();
  if (state.trace) o.recorder = &state.trace->recorder();
  state.engine = std::make_shared<am::engine>(std::move(o));
  state.client = state.engine.get();

  state.functions = std::make_unique<key_resolver>(m.capacity());
  state.context.functions = state.functions.get();
  for (node_id node = 0; node < m.nodes(); ++node) {
    if (!m.knows(node)) continue;
    // A node without a process (a device) can be called only from the process in which it lives, so
    // that here it has no route. This is no error.
    if (m.route_to(node).via == nullptr && !is_hosted(m.card_of(node))) {
      throw start_failed(node_text(node) + " cannot be reached: " + m.route_to(node).reason, node);
    }
    take_in(state, m.card_of(node), m.route_to(node));
  }
  for (transport* t : m.transports())
    state.engine->acceptor().listen(*t);
  job_registry::instance().add(&state);
  if (state.trace) state.trace->start(state);
}

std::vector<unique_fd> take_over(const std::vector<int>& descriptors) {
  return {descriptors.begin(), descriptors.end()};
}

/// Starts all threads of a job of equals except the failure detector's thread. Without a progress
/// thread, the calling thread itself runs the handlers.
void start_equals(am::engine& engine, bool has_progress_thread) {
  engine.workers().start(has_progress_thread ? 0 : 1);
  if (!has_progress_thread) engine.workers().attach();
}

std::string no_thread_text(const std::system_error& e) {
  std::string text = std::string("no thread can be made: ") + e.what();
  if (e.code() == std::errc::resource_unavailable_try_again) {
    text +=
        " (limit of processes and threads: 'ulimit -u', or of the container's pids; or limit of "
        "memory, which its stack takes: 'ulimit -d', 'ulimit -v')";
  }
  return text;
}

/// Tests whether the system allows `count` more threads: makes them, so that all of them live at
/// the same time, and ends them again. Throws error if one cannot be made.
void require_threads(std::size_t count) {
  std::promise<void> are_made;
  const std::shared_future<void> end = are_made.get_future().share();
  std::vector<library_thread> all;
  all.reserve(count);
  std::string refusal;
  try {
    while (all.size() != count)
      all.emplace_back("farcall-worker", [end] { end.wait(); });
  } catch (const std::system_error& e) {
    refusal = no_thread_text(e);
  }
  are_made.set_value();
  all.clear();
  if (!refusal.empty()) throw error(refusal);
}

/// Number of threads of a target besides the workers: the failure detector, the acceptor, and one
/// that transports use.
constexpr std::size_t other_threads_of_targets = 3;

/// Throws an exception if this process cannot be a target; see target_side::join_check. It is
/// called before the target joins, because after joining, an end of the process would count as the
/// failure of a node.
void check_target(std::span<const std::byte> settings, std::string_view scheme,
                  std::uint32_t workers) {
  if (!detail::decode_settings(settings).service.empty()) {
    const transport_entry* const row = find_transport(transports(), scheme);
    detail::service_entry().check_target(row != nullptr && row->maps_memory);
  }
  require_threads(workers - 1 + other_threads_of_targets);
}

/// Tells the host why this process cannot join as a target, and ends the process.
[[noreturn]] void give_up_joining(detail::job_state& state, bool is_child, const char* why) {
  // Normally the host prints the reason. If a launcher has started this process, it may end the
  // host before that, so this process also logs the reason as an error. A child of the host logs it
  // only at level info, because otherwise the line would appear once for each target.
  const std::string text = std::string("this target cannot join: ") + why;
  is_child ? log::info(text) : log::error(text);
  if (state.target) state.target->give_up(why);
  std::_Exit(cannot_join_status);
}

/// Process id of this process while it joins a job as a target, or serves one. After a fork, the
/// child compares the value with its own id, and finds that it is not serving.
constinit std::atomic<pid_t> serving_process{0};

[[noreturn]] void throw_no_second_job() {
  const node_id self = detail::own_id();
  throw error(
      "this process is " + (self != host_id ? node_text(self) : "a target") +
      " of a job and cannot be the host of another; let the host start all nodes, and " +
      "call them from here with farcall::node_at(number). If threads of main() make jobs, " +
      "call farcall::serve_if_target() before they start");
}

/// Joins a job as a target by calling `join`, and serves calls until the job ends. `is_child` is
/// true if the host has started this process as its child. Throws error if another thread of this
/// process already serves.
template <class Join>
void serve(const Join& join, bool is_child) {
  if (serving_process.exchange(::getpid()) == ::getpid()) throw_no_second_job();
  auto state = std::make_unique<detail::job_state>();
  try {
    state->target = join();
    target_side& target = *state->target;
    state->members = &target.members();
    const node_id self = state->members->self();
    detail::process_node.store(self, std::memory_order_relaxed);
    const detail::forwarded_settings forwarded = detail::decode_settings(target.settings());
    report_faults(self, {.kind = forwarded.crash_reports});
    target.set_introduction_timeout(forwarded.start_timeout);
    if (forwarded.are_equals) {
      throw error("this program makes a plain job, or calls serve_if_target(), where the host's "
                  "makes a job of equals (fc::spmd)");
    }
    // Start a progress thread, which runs the continuations that handlers leave behind.
    set_up(*state, forwarded, true);
    if (!forwarded.service.empty()) {
      state->service = detail::service_entry().on_target(*state, forwarded.service);
    }
    am::engine& engine = *state->engine;
    // Capture a reference to the object instead of the pointer `state`. While the object is
    // destroyed, `state` is already null, but the functions may still be called.
    detail::job_state& all = *state;
    target.watch({.node_joined = [&all](const card& c, const route& r) { take_in(all, c, r); },
                  .node_failed = [&](node_id n, const std::string& why) { engine.fail(n, why); },
                  .shut_down = [&] { engine.workers().stop_when_done(); },
                  .file_came =
                      [service = state->service](std::uint64_t number, unique_fd file) {
                        if (service) service->take_file(number, std::move(file));
                      }});
    if (state->service) state->service->begin();
    engine.workers().start(1);
  } catch (const std::system_error& e) {
    give_up_joining(*state, is_child, no_thread_text(e).c_str());
  } catch (const std::exception& e) {
    give_up_joining(*state, is_child, e.what());
  }
  {
    const signal_stack for_faults;
    const detail::context_scope scope(&state->context);
    state->engine->workers().serve(0);
  }
  if (state->service) state->service->finish();
  if (state->trace) state->trace->finish();
  state.reset();
  serving_process.store(0);
}

/// Returns true if the command line makes this process a server. A launcher may have started one
/// server on each machine of a cluster. In this case the servers are not targets of the first one.
bool is_server() {
  const std::string option = settings::option_of(settings::row("serve"));
  const std::vector<std::string> given = own_arguments();
  return std::any_of(given.begin(), given.end(), [&](const std::string& a) {
    return a == option || a.starts_with(option + "=");
  });
}

/// Way in which this process was started.
enum class start_kind {
  host,
  target,          ///< started by its host
  launched_target, ///< one of the processes that a process manager has started, but not the first
};

start_kind start_kind_of(const job_options& options) {
  if (is_started_target()) return start_kind::target;
  return detail::own_id() == host_id && is_launched_target(detail::process_manager_of(options)) &&
                 !is_server()
             ? start_kind::launched_target
             : start_kind::host;
}

std::unique_ptr<target_side> join_host(const job_options& options, start_kind kind) {
  if (kind == start_kind::target) return target_side::join(transports(), identity(), check_target);
  std::optional<process_group> group;
  try {
    group = take_launched_group(detail::process_manager_of(options));
    if (!group || group->size == 1) throw error("its process manager says that it is alone");
  } catch (const error& e) {
    throw error(std::string("this process was started as one of several: ") + e.what());
  }
  return target_side::join(*group, detail::timeout_for_host(options), transports(), identity(),
                           check_target);
}

/// Returns the group if it has more than one process, and otherwise null.
const process_group* several(const std::optional<process_group>& group) {
  return group && group->size > 1 ? &*group : nullptr;
}

void serve_if_started(const job_options& options) {
  const start_kind kind = start_kind_of(options);
  if (kind == start_kind::host) return;
  // Load the transports before joining, because an error at this point can be thrown, and after
  // joining could not be reported to a host.
  (void)transports();
  serve([&] { return join_host(options, kind); }, kind == start_kind::target);
  std::exit(0);
}

/// Values from which a host makes its job: the options, completed from the command line and the
/// environment, and the group of processes that make the job together.
struct given_job {
  job_options options;
  std::optional<process_group> group;
};

/// Returns the options and the group with which a host makes its job. If the command line asks for
/// the help, prints it and exits. If it makes this process a server, serves hosts and exits. Throws
/// setting_error.
given_job read_command_line(const job_options& options, const settings_source& given) {
  if (given.asks_for_help()) {
    std::fputs(settings::help().c_str(), stdout);
    std::exit(0);
  }
  const auto server = given.text(settings::row("serve"));
  given_job wanted;
  if (!server) wanted.group = take_launched_group(detail::process_manager_of(options));
  wanted.options = detail::complete(options, given, wanted.group.has_value());
  if (server) detail::serve_hosts(*server, wanted.options, given);
  detail::refuse_server_options(given);
  return wanted;
}

/// Calls `make`. If `make` throws a setting_error that the program does not catch, the process ends
/// with the text of this exception.
template <class Make>
void tell_setting_errors_of(const Make& make) {
  try {
    make();
  } catch (const setting_error&) {
    detail::tell_uncaught_setting_errors();
    throw;
  }
}

} // namespace

// ---- job_state ----------------------------------------------------------------------------------

detail::job_state::job_state() noexcept {
  static std::atomic<std::uint32_t> last{0};
  serial = last.fetch_add(1, std::memory_order_relaxed) + 1;
  copies = &owned_copies;
}

detail::job_state& detail::current_job() { return state_of(current_core()); }

// ---- job ----------------------------------------------------------------------------------------

job::job() : job(job_options{}) {}

job::job(const job_options& options) {
  serve_if_started(options);
  // After serve_if_started(), because a target does not use these descriptors.
  auto existing = take_over(options.existing_targets);
  const settings_source given;
  detail::refuse_plain_jobs(given);
  const auto group = take_launched_group(detail::process_manager_of(options));
  const job_options o = detail::complete(options, given, group.has_value());
  detail::refuse_host_alone(o, group);
  start(o, std::move(existing), several(group), false);
}

job::job(int& argc, char** argv, const job_options& options) {
  tell_setting_errors_of([&] {
    serve_if_started(options);
    // After serve_if_started(), because a target does not use these descriptors.
    auto existing = take_over(options.existing_targets);
    const settings_source given(argc, argv);
    const given_job wanted = read_command_line(options, given);
    detail::refuse_plain_jobs(given);
    detail::refuse_host_alone(wanted.options, wanted.group);
    start(wanted.options, std::move(existing), several(wanted.group), false);
  });
}

job::job(spmd_t /*says which*/, const job_options& options) {
  if (start_kind_of(options) != start_kind::host) {
    join_equals(options, nullptr);
    return;
  }
  const auto group = take_launched_group(detail::process_manager_of(options));
  start(detail::complete(options, settings_source(), group.has_value()),
        take_over(options.existing_targets), several(group), true);
}

job::job(spmd_t /*says which*/, const process_group& group, const job_options& options) {
  if (group.size == 0 || group.rank >= group.size) {
    throw setting_error("a process_group has at least one process, and its rank is below its size");
  }
  renounce_launched_group();
  if (group.rank == host_id) {
    start(detail::complete(options, settings_source(), true), take_over(options.existing_targets),
          &group, true);
  } else {
    join_equals(options, &group);
  }
}

job::job(spmd_t /*says which*/, int& argc, char** argv, const job_options& options) {
  tell_setting_errors_of([&] {
    const settings_source given(argc, argv);
    if (start_kind_of(options) != start_kind::host) return join_equals(options, nullptr);
    const given_job wanted = read_command_line(options, given);
    start(wanted.options, take_over(options.existing_targets), several(wanted.group), true);
  });
}

job::job(job&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), rank_(other.rank_),
      closed_size_(other.closed_size_), targets_(std::move(other.targets_)) {}

job& job::operator=(job&& other) noexcept {
  if (this != &other) {
    detail::end_job(std::exchange(state_, std::exchange(other.state_, nullptr)));
    targets_ = std::move(other.targets_);
    rank_ = other.rank_;
    closed_size_ = other.closed_size_;
  }
  return *this;
}

job::~job() { detail::end_job(state_); }

void job::close() {
  if (state_ == nullptr) return;
  if (state_->as_equals) detail::close_equals(*state_);
  closed_size_ = size();
  detail::end_job(std::exchange(state_, nullptr));
}

void job::join_equals(const job_options& options, const process_group* group) {
  detail::require_first();
  auto state = std::make_unique<detail::job_state>();
  const start_kind kind = group == nullptr ? start_kind_of(options) : start_kind::launched_target;
  const bool is_child = kind == start_kind::target;
  try {
    state->target = group == nullptr ? join_host(options, kind)
                                     : target_side::join(*group, detail::timeout_for_host(options),
                                                         transports(), identity(), check_target);
    state->members = &state->target->members();
    rank_ = state->members->self();
    detail::process_node.store(rank_, std::memory_order_relaxed);
    const detail::forwarded_settings forwarded = detail::decode_settings(state->target->settings());
    report_faults(rank_, {.kind = forwarded.crash_reports});
    state->target->set_introduction_timeout(forwarded.start_timeout);
    if (!forwarded.are_equals) {
      throw error("this program makes a job of equals (fc::spmd), and the host's a plain one");
    }
    set_up(*state, forwarded, forwarded.has_progress_thread);
    detail::watch_equals(*state,
                         [s = state.get()](const card& c, const route& r) { take_in(*s, c, r); });
    start_equals(*state->engine, forwarded.has_progress_thread);
  } catch (const std::system_error& e) {
    give_up_joining(*state, is_child, no_thread_text(e).c_str());
  } catch (const std::exception& e) {
    give_up_joining(*state, is_child, e.what());
  }
  for (node_id id = 1; id < state->members->nodes(); ++id)
    targets_.emplace_back(*state, id);
  state_ = state.release();
}

void job::start(const job_options& options, std::vector<unique_fd> existing,
                const process_group* group, bool are_equals) {
  if (job_registry::instance().is_in_child()) {
    detail::process_node.store(host_id, std::memory_order_relaxed);
  }
  // Check serving_process as well as own_id(). While another thread of this process joins a job as
  // a target, own_id() is not set yet.
  if (detail::own_id() != host_id || serving_process.load() == ::getpid()) throw_no_second_job();
  membership_options o;
  if (are_equals) {
    detail::require_first();
    if (!existing.empty()) {
      throw setting_error("a job of equals starts its nodes: leave out "
                          "job_options::existing_targets");
    }
    // Remove the variable from the environment, because programs that a node starts are not nodes
    // of this job.
    ::unsetenv(settings::variable_of(settings::row("spmd")).c_str());
    if (options.workers != 1) {
      throw setting_error("in a job of equals one thread of each node runs handlers: leave out "
                          "job_options::workers and FARCALL_WORKERS");
    }
    o.targets = detail::parse_equals(options.targets);
    o.are_equals = true;
    o.survives = options.survive;
  } else if (options.targets == no_targets) {
    throw setting_error(
        "targets \"none\" (FARCALL_TARGETS) are for jobs of equals, whose other nodes "
        "a launcher starts; name targets, for instance \"shm\"");
  } else if (!options.targets.empty()) {
    o.targets = parse_targets(options.targets);
  }
  o.existing = std::move(existing);
  if (group != nullptr) o.group = *group;
  o.program = options.program;
  o.arguments = options.arguments;
  o.start_timeout = options.start_timeout;
  o.stop_timeout = options.stop_timeout;
  o.workers = options.workers;
  o.lane_bytes = options.lane_bytes;
  o.heap_bytes = options.heap_bytes;
  o.access = {.key = options.key,
              .certificate = options.certificate,
              .certificate_key = options.certificate_key,
              .authority = options.authority,
              .server_key = options.server_key};
  o.heartbeat_timeout = options.heartbeat_timeout;
  o.peer_timeout = options.peer_timeout;
  o.labels = options.label;
  const bool has_thread = options.progress == "thread";
  const auto service = detail::service_entry().on_host(options);
  if (service && are_equals) {
    throw setting_error("a job of equals cannot have host_files: its host serves only while it "
                        "waits; leave them out, or make a plain job");
  }
  auto trace = detail::job_trace::on_host(options);
  const detail::forwarded_settings forwarded{options.waiting,
                                             options.release_timeout,
                                             options.start_timeout,
                                             options.stop_timeout,
                                             are_equals,
                                             has_thread,
                                             trace != nullptr,
                                             detail::crash_report_of(options),
                                             service ? service->for_targets() : "",
                                             detail::new_job_mark()};
  o.settings = encode(forwarded);
  o.transports = transports();
  auto state = std::make_unique<detail::job_state>();
  state->trace = std::move(trace);
  state->service = service;
  state->start_timeout = options.start_timeout;
  if (options.restart_lost_servers) state->returns.enable();
  state->host = host_side::launch(std::move(o), identity());
  state->members = &state->host->members();
  set_up(*state, forwarded, has_thread);
  am::engine& engine = *state->engine;
  state->watch.start(static_cast<node_id>(state->members->nodes()));
  try {
    const auto joined = [s = state.get()](const card& c, const route& r) { take_in(*s, c, r); };
    if (are_equals) {
      detail::watch_equals(*state, joined);
      start_equals(engine, has_thread);
    } else {
      state->host->watch({.node_joined = joined,
                          .node_failed =
                              [s = state.get()](node_id n, const std::string& why) {
                                s->engine->fail(n, why);
                                if (s->service) s->service->node_ended(n);
                                s->watch.node_ended(*s, n, why);
                                s->returns.node_failed(n);
                              },
                          .shut_down = {}});
      engine.workers().start(0);
    }
  } catch (const std::system_error& e) {
    state.reset();
    throw start_failed("the job cannot be started: " + no_thread_text(e));
  }
  for (node_id id = 1; id < state->members->nodes(); ++id)
    targets_.emplace_back(*state, id);
  state_ = state.release();
  if (are_equals) detail::watch_exit(*state_);
}

detail::job_state& job::state() const {
  if (state_ == nullptr) throw error("this job was closed, or moved to another object");
  return detail::state_of(*state_);
}

bool job::wait_for(bool (*holds)(void*) noexcept, void* argument, time_limit limit) {
  am::engine& engine = *state().engine;
  return engine.waiter().wait_until(holds, argument, engine.workers().is_attached(),
                                    deadline_after(limit));
}

void job::notify() { state().engine->waiter().notify(); }

void job::progress() { state().engine->waiter().poll_all(); }

void job::progress_in_place() { state().engine->waiter().poll_all_in_place(); }

int job::wait_fd() {
  if (state().engine->workers().is_served_by_caller()) {
    throw error(
        "wait_fd() does not tell of requests, which the thread that made this job of equals "
        "serves; wait_until() does, or let a thread of farcall's serve them "
        "(job_options::progress)");
  }
  return state().engine->waiter().wait_fd();
}

node job::host() const noexcept { return state_ != nullptr ? node(*state_, host_id) : node(); }

node job::node_at(node_id id) const {
  if (id >= size()) {
    throw error(missing_node_text(id, size()));
  }
  return {state(), id};
}

void serve_if_target() { serve_if_started({}); }

bool serve_as_target() {
  const start_kind kind = start_kind_of({});
  if (kind == start_kind::host) return false;
  // Load the transports before joining, because an error at this point can be thrown, and after
  // joining could not be reported to a host.
  (void)transports();
  serve([kind] { return join_host({}, kind); }, kind == start_kind::target);
  return true;
}

void serve_as_target(int socket) {
  unique_fd to_host(socket);
  require_control_socket(socket);
  job_registry& all = job_registry::instance();
  if (!all.empty() || (detail::own_id() != host_id && !all.is_in_child())) {
    throw error("a process that has a job cannot join another as a target");
  }
  const auto table = transports();
  serve(
      [&] {
        return target_side::join(port_connection{std::move(to_host), nullptr}, table, identity(),
                                 check_target);
      },
      false);
}

} // namespace farcall
