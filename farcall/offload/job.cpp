#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_end.hpp>
#include <farcall/offload/job_registry.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>
#include <farcall/offload/serve_hosts.hpp>
#include <farcall/offload/transfer.hpp>
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
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall {

namespace {

using detail::job_registry;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Status with which a target ends that cannot join; the host reports the reason.
constexpr int cannot_join_status = 70;

/// How long the host's threads that run handlers look for the next request before they sleep: about
/// as long as a target takes to go on with what it called for.
constexpr std::chrono::nanoseconds most_spin_of_hosts = microseconds(50);

program_identity identity() {
  return {program_image::instance().build(), function_registry::instance().digest()};
}

/// One line of the host's log for each other node.
void log_route(const card& c, const route& r) {
  if (!log::enabled(log::level::info)) return;
  std::string line = node_text(c.id);
  if (c.name != line) line += " (" + c.name + ")";
  line += ", process " + std::to_string(c.pid) + " on " + c.host + ", ";
  line += r.via == nullptr ? "has no route" : "is reached by " + std::string(r.via->scheme());
  log::info(line + ": " + r.reason);
}

/// The node can be called, and call, from now on.
void take_in(detail::job_state& state, const card& c, const route& r) {
  const node_id self = state.members->self();
  if (self == host_id && c.id != self) log_route(c, r);
  state.functions->add(c, r.via);
  detail::describe_peer(state, c, r);
  if (r.via == nullptr) {
    state.engine->set_unreachable(c.id, r.reason);
  } else {
    state.engine->set_route(c.id, *r.via, c.workers);
  }
}

/// The rest of a job that has its members.
void set_up(detail::job_state& state, const detail::forwarded_settings& forwarded,
            bool progresses) {
  if (forwarded.are_equals) {
    state.as_equals = std::make_unique<detail::equals>();
    state.as_equals->stop_timeout = forwarded.stop_timeout;
  }
  membership& m = *state.members;
  const wait_policy& waiting = forwarded.waiting;
  state.release_timeout = forwarded.release_timeout;
  state.context.job = &state;
  state.mark = forwarded.job_mark;

  am::engine_options o;
  o.self = m.self();
  o.nodes = m.capacity();
  o.meet = [&m](node_id node, time_point deadline) { m.meet(node, deadline); };
  o.workers = m.card_of(m.self()).workers;
  o.waiting = waiting;
  o.has_one_worker = forwarded.are_equals;
  // Elsewhere it is the host that waits, and calls that wait for their answers are told.
  if (forwarded.are_equals) o.lane_lost = [&m](node_id node) { m.cut_off(node); };
  // The processors of hosts, and of equals, are the program's.
  if (m.self() == host_id || forwarded.are_equals) {
    o.waiting_of_workers = {std::min(waiting.spin, most_spin_of_hosts), waiting.yield_after};
  }
  o.progresses = progresses;
  o.handlers = key_resolver::handlers(state.context);
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
    // Nodes that live in other processes stay without a route.
    if (m.route_to(node).via == nullptr && !is_hosted(m.card_of(node))) {
      throw start_failed(node_text(node) + " cannot be reached: " + m.route_to(node).reason, node);
    }
    take_in(state, m.card_of(node), m.route_to(node));
  }
  for (transport* t : m.transports())
    state.engine->listen(*t);
  job_registry::instance().add(&state);
  if (state.trace) state.trace->start(state);
}

std::vector<unique_fd> take_over(const std::vector<int>& descriptors) {
  return {descriptors.begin(), descriptors.end()};
}

/// Has the threads of a job of equals run, but for those of its failure detector.
void start_equals(am::engine& engine, bool has_progress_thread) {
  engine.start_workers(has_progress_thread ? 0 : 1);
  if (!has_progress_thread) engine.attach();
}

std::string no_thread_text(const std::system_error& e) {
  std::string text = std::string("no thread can be made: ") + e.what();
  if (e.code() == std::errc::resource_unavailable_try_again) {
    text += " (limit of processes and threads: 'ulimit -u', or of the container's pids)";
  }
  return text;
}

/// Makes so many threads at a time, which end at once. Throws error if the system refuses one.
void require_threads(std::size_t count) {
  std::promise<void> are_made;
  const std::shared_future<void> end = are_made.get_future().share();
  std::vector<std::thread> all;
  all.reserve(count);
  std::string refusal;
  try {
    while (all.size() != count)
      all.emplace_back([end] { end.wait(); });
  } catch (const std::system_error& e) {
    refusal = no_thread_text(e);
  }
  are_made.set_value();
  for (std::thread& made : all)
    made.join();
  if (!refusal.empty()) throw error(refusal);
}

/// Beside its workers: the failure detector, the acceptor, and one for transports.
constexpr std::size_t other_threads_of_targets = 3;

/// As membership::join_check. Once a target has joined, its end would be the failure of a node.
void check_target(std::span<const std::byte> settings, std::string_view scheme,
                  std::uint32_t workers) {
  if (!detail::decode_settings(settings).service.empty())
    detail::service_entry().check_target(scheme);
  require_threads(workers - 1 + other_threads_of_targets);
}

/// A target that cannot join ends.
[[noreturn]] void give_up_joining(detail::job_state& state, bool is_child, const char* why) {
  // The host prints the reason, unless a launcher ends it before, because this process has failed.
  // What the host has started says no more: it would appear once per target.
  const std::string text = std::string("this target cannot join: ") + why;
  is_child ? log::info(text) : log::error(text);
  if (state.members) state.members->give_up(why);
  std::_Exit(cannot_join_status);
}

/// Process that joins a job as a target, or serves one. A child of a fork is another one.
constinit std::atomic<pid_t> serving_process{0};

[[noreturn]] void throw_no_second_job() {
  const node_id self = detail::own_id();
  throw error(
      "this process is " + (self != host_id ? node_text(self) : "a target") +
      " of a job and cannot be the host of another; let the host start all nodes, and " +
      "call them from here with farcall::node_at(number). If threads of main() make jobs, " +
      "call farcall::serve_if_target() before they start");
}

/// A target, started by its host as a child or not: joins by `join`, and serves until the job ends.
/// Throws error if another thread does so.
template <class Join>
void serve(const Join& join, bool is_child) {
  if (serving_process.exchange(::getpid()) == ::getpid()) throw_no_second_job();
  auto state = std::make_unique<detail::job_state>();
  try {
    state->members = join();
    membership& members = *state->members;
    detail::process_node.store(members.self(), std::memory_order_relaxed);
    const detail::forwarded_settings forwarded = detail::decode_settings(members.settings());
    report_faults(members.self(), {.kind = forwarded.crash_reports});
    if (forwarded.are_equals) {
      throw error("this program makes a plain job, or calls serve_if_target(), where the host's "
                  "makes a job of equals (fc::spmd)");
    }
    // Handlers leave continuations behind.
    set_up(*state, forwarded, true);
    if (!forwarded.service.empty()) {
      state->service = detail::service_entry().on_target(*state, forwarded.service);
    }
    am::engine& engine = *state->engine;
    // Until the state has ended, which begins after the owner has let go of it.
    detail::job_state& all = *state;
    members.watch({.node_joined = [&all](const card& c, const route& r) { take_in(all, c, r); },
                   .node_failed = [&](node_id n, const std::string& why) { engine.fail(n, why); },
                   .shut_down = [&] { engine.stop_when_done(); },
                   .file_came =
                       [service = state->service](std::uint64_t number, unique_fd file) {
                         if (service) service->take_file(number, std::move(file));
                       }});
    engine.start_workers(1);
  } catch (const std::system_error& e) {
    give_up_joining(*state, is_child, no_thread_text(e).c_str());
  } catch (const std::exception& e) {
    give_up_joining(*state, is_child, e.what());
  }
  {
    const signal_stack for_faults;
    const detail::context_scope scope(&state->context);
    state->engine->serve(0);
  }
  if (state->service) state->service->finish();
  if (state->trace) state->trace->finish();
  state.reset();
  serving_process.store(0);
}

/// Whether the user has made this process a server: one of several that a launcher has started on
/// the machines of a cluster, perhaps, which is no target of the first of them.
bool is_server() {
  const std::string option = settings::option_of(settings::row("serve"));
  const std::vector<std::string> given = own_arguments();
  return std::any_of(given.begin(), given.end(), [&](const std::string& a) {
    return a == option || a.starts_with(option + "=");
  });
}

/// How this process has been started.
enum class start_kind {
  host,
  target,          ///< by its host
  launched_target, ///< by a process manager, as one that is not the first
};

start_kind start_kind_of(const job_options& options) {
  if (membership::is_target()) return start_kind::target;
  return detail::own_id() == host_id && is_launched_target(detail::process_manager_of(options)) &&
                 !is_server()
             ? start_kind::launched_target
             : start_kind::host;
}

std::unique_ptr<membership> join_host(const job_options& options, start_kind kind) {
  if (kind == start_kind::target) return membership::join(transports(), identity(), check_target);
  std::optional<process_group> group;
  try {
    group = take_launched_group(detail::process_manager_of(options));
    if (!group || group->size == 1) throw error("its process manager says that it is alone");
  } catch (const error& e) {
    throw error(std::string("this process was started as one of several: ") + e.what());
  }
  return membership::join(*group, detail::patience_for_host(options), transports(), identity(),
                          check_target);
}

/// Null if no other process belongs to the group.
const process_group* several(const std::optional<process_group>& group) {
  return group && group->size > 1 ? &*group : nullptr;
}

void serve_if_started(const job_options& options) {
  const start_kind kind = start_kind_of(options);
  if (kind == start_kind::host) return;
  (void)transports(); // throws, where the host could not be told why
  serve([&] { return join_host(options, kind); }, kind == start_kind::target);
  std::exit(0);
}

/// Options of a job with the settings of its command line and environment, and the processes that
/// make it together.
struct given_job {
  job_options options;
  std::optional<process_group> group;
};

/// Returns the job of a host; prints the help, or serves hosts, and exits if the command line says
/// so. Throws setting_error.
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

/// Calls `make`, and has an uncaught setting_error end the program with its text.
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

constinit std::atomic<node_id> detail::process_node{host_id};

detail::job_state::job_state() noexcept {
  static std::atomic<std::uint32_t> last{0};
  serial = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

detail::job_core& detail::find_current_core() {
  if (const call_context* context = current_context())
    return *static_cast<job_state*>(context->job);
  return job_registry::instance().only();
}

detail::job_state& detail::current_job() { return state_of(current_core()); }

am::client* detail::only_client() {
  if (current_context() == nullptr && job_registry::instance().has_none()) return nullptr;
  return current_job().client;
}

// ---- node ---------------------------------------------------------------------------------------

bool node::has_job() const noexcept {
  return job_ != nullptr && job_registry::instance().has(job_, job_serial_);
}

node_description node::description() const {
  if (job_ == nullptr) throw error("this node handle belongs to no job");
  const membership& members = *detail::state_of(*job_).members;
  const card& c = members.card_of(id_);
  const route& route = members.route_to(id_);
  return {c.id,           c.name,
          c.host,         c.pid,
          c.architecture, c.cores,
          c.workers,      route.via != nullptr ? std::string(route.via->scheme()) : "none",
          route.reason};
}

bool node::alive() const {
  if (job_ == nullptr) throw error("this node handle belongs to no job");
  if (!has_job()) {
    if (job_registry::instance().is_in_child()) throw forked();
    return false;
  }
  const detail::job_state& state = detail::state_of(*job_);
  if (state.engine->has_failed(id_)) return false;
  if (state.members->knows(id_)) return true;
  try {
    // Only nodes that know it were told of its end.
    state.members->meet(id_);
  } catch (const node_failed&) {
    return false;
  }
  return !state.engine->has_failed(id_);
}

node this_node() {
  detail::job_state& job = detail::current_job();
  return {job, job.members->self()};
}

node host() { return {detail::current_job(), host_id}; }

std::size_t node_count() { return detail::current_job().members->nodes(); }

node node_at(node_id id) {
  detail::job_state& job = detail::current_job();
  if (!job.members->has(id)) {
    throw error(missing_node_text(id, job.members->nodes()));
  }
  return {job, id};
}

// ---- job ----------------------------------------------------------------------------------------

job::job() : job(job_options{}) {}

job::job(const job_options& options) {
  serve_if_started(options);
  auto existing = take_over(options.existing_targets); // in a target the numbers mean nothing
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
    auto existing = take_over(options.existing_targets); // in a target the numbers mean nothing
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
    state->members = group == nullptr ? join_host(options, kind)
                                      : membership::join(*group, detail::patience_for_host(options),
                                                         transports(), identity(), check_target);
    membership& members = *state->members;
    rank_ = members.self();
    detail::process_node.store(rank_, std::memory_order_relaxed);
    const detail::forwarded_settings forwarded = detail::decode_settings(members.settings());
    report_faults(rank_, {.kind = forwarded.crash_reports});
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
  // A thread that joins has no number yet.
  if (detail::own_id() != host_id || serving_process.load() == ::getpid()) throw_no_second_job();
  membership_options o;
  if (are_equals) {
    detail::require_first();
    if (!existing.empty()) {
      throw setting_error("a job of equals starts its nodes: leave out "
                          "job_options::existing_targets");
    }
    // Programs that a node starts are others.
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
  state->members = membership::launch(std::move(o), identity());
  set_up(*state, forwarded, has_thread);
  am::engine& engine = *state->engine;
  state->watch.start(static_cast<node_id>(state->members->nodes()));
  try {
    const auto joined = [s = state.get()](const card& c, const route& r) { take_in(*s, c, r); };
    if (are_equals) {
      detail::watch_equals(*state, joined);
      start_equals(engine, has_thread);
    } else {
      state->members->watch({.node_joined = joined,
                             .node_failed =
                                 [s = state.get()](node_id n, const std::string& why) {
                                   s->engine->fail(n, why);
                                   if (s->service) s->service->node_ended(n);
                                   s->watch.node_ended(*s, n, why);
                                   s->returns.node_failed(*s, n);
                                 },
                             .shut_down = {}});
      engine.start_workers(0);
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
  return engine.wait_until(holds, argument, engine.is_attached(), deadline_after(limit));
}

void job::notify() { state().engine->notify_local(); }

void job::progress() { state().engine->poll_all(); }

void job::progress_in_place() { state().engine->poll_all_in_place(); }

int job::wait_fd() {
  if (state().engine->is_served_by_caller()) {
    throw error(
        "wait_fd() does not tell of requests, which the thread that made this job of equals "
        "serves; wait_until() does, or let a thread of farcall's serve them "
        "(job_options::progress)");
  }
  return state().engine->wait_fd();
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
  (void)transports(); // throws, where the host could not be told why
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
        return membership::join(port_connection{std::move(to_host), nullptr}, table, identity(),
                                check_target);
      },
      false);
}

} // namespace farcall
