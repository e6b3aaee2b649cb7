// SPDX-License-Identifier: Apache-2.0
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
#include <farcall/job/passed_pipes.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/job/started_target.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_end.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/job_setup.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>
#include <farcall/offload/serve_hosts.hpp>
#include <farcall/offload/serving.hpp>
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

std::vector<unique_fd> take_over(const std::vector<int>& descriptors) {
  return {descriptors.begin(), descriptors.end()};
}

/// Starts all threads of a job of equals except the failure detector's thread. Without a progress
/// thread, the calling thread itself runs the handlers.
void start_equals(am::engine& engine, bool has_progress_thread) {
  engine.workers().start(has_progress_thread ? 0 : 1);
  if (!has_progress_thread) engine.workers().attach();
}

/// Returns the group if it has more than one process, and otherwise null.
const process_group* several(const std::optional<process_group>& group) {
  return group && group->size > 1 ? &*group : nullptr;
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
  detail::serve_if_started(options);
  // After serve_if_started(), because a target does not use these descriptors.
  auto existing = take_over(options.existing_targets);
  const settings_source given;
  detail::refuse_plain_jobs(given);
  const auto group = take_launched_group(detail::process_manager_of(options));
  const job_options o = detail::complete(options, given, group.has_value());
  detail::refuse_host_alone(o, group);
  detail::refuse_no_targets(options, o);
  start(o, std::move(existing), several(group), false);
}

job::job(int& argc, char** argv, const job_options& options) {
  tell_setting_errors_of([&] {
    detail::serve_if_started(options);
    // After serve_if_started(), because a target does not use these descriptors.
    auto existing = take_over(options.existing_targets);
    const settings_source given(argc, argv);
    const given_job wanted = read_command_line(options, given);
    detail::refuse_plain_jobs(given);
    detail::refuse_host_alone(wanted.options, wanted.group);
    detail::refuse_no_targets(options, wanted.options);
    start(wanted.options, std::move(existing), several(wanted.group), false);
  });
}

job::job(spmd_t /*says which*/, const job_options& options) {
  if (detail::start_kind_of(options) != detail::start_kind::host) {
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
    if (detail::start_kind_of(options) != detail::start_kind::host)
      return join_equals(options, nullptr);
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
  const detail::start_kind kind =
      group == nullptr ? detail::start_kind_of(options) : detail::start_kind::launched_target;
  const bool is_child = kind == detail::start_kind::target;
  try {
    state->target =
        group == nullptr ? detail::join_host(options, kind) : detail::join_group(*group, options);
    state->members = &state->target->members();
    rank_ = state->members->self();
    detail::process_node.store(rank_, std::memory_order_relaxed);
    const detail::forwarded_settings forwarded = detail::decode_settings(state->target->settings());
    report_faults(rank_, {.kind = forwarded.crash_reports});
    state->target->set_introduction_timeout(forwarded.start_timeout);
    if (!forwarded.are_equals) {
      throw error("this program makes a job of equals (fc::spmd), and the host's a plain one");
    }
    detail::set_up(*state, forwarded, forwarded.has_progress_thread);
    detail::watch_equals(
        *state, [s = state.get()](const card& c, const route& r) { detail::take_in(*s, c, r); });
    start_equals(*state->engine, forwarded.has_progress_thread);
  } catch (const std::system_error& e) {
    detail::give_up_joining(*state, is_child, detail::no_thread_text(e).c_str());
  } catch (const std::exception& e) {
    detail::give_up_joining(*state, is_child, e.what());
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
  detail::require_no_target();
  // Before targets are started, because they must not inherit the pipe.
  send_job_notice();
  membership_options o;
  wait_policy waiting = options.waiting;
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
    // Nodes on other machines are counted, too: a yield costs little there.
    waiting = detail::waiting_of_equals(
        waiting, o.targets.size() + (group != nullptr ? group->size : std::size_t{1}));
  } else if (!options.targets.empty() && options.targets != no_targets) {
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
  o.output = options.output;
  const bool has_thread = options.progress == "thread";
  const auto service = detail::service_entry().on_host(options);
  if (service && are_equals) {
    throw setting_error("a job of equals cannot have host_files: its host serves only while it "
                        "waits; leave them out, or make a plain job");
  }
  auto trace = detail::job_trace::on_host(options);
  const detail::forwarded_settings forwarded{waiting,
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
  state->host = host_side::launch(std::move(o), detail::identity());
  state->members = &state->host->members();
  detail::set_up(*state, forwarded, has_thread);
  am::engine& engine = *state->engine;
  state->watch.start(static_cast<node_id>(state->members->nodes()));
  try {
    const auto joined = [s = state.get()](const card& c, const route& r) {
      detail::take_in(*s, c, r);
    };
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
    throw start_failed("the job cannot be started: " + detail::no_thread_text(e));
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

int detail::job_state::wait_fd() {
  if (engine->workers().is_served_by_caller()) {
    throw error(
        "wait_fd() does not tell of requests, which the thread that made this job of equals "
        "serves; wait_until() does, or let a thread of farcall's serve them "
        "(job_options::progress)");
  }
  return engine->waiter().wait_fd();
}

int job::wait_fd() { return state().wait_fd(); }

node job::host() const noexcept { return state_ != nullptr ? node(*state_, host_id) : node(); }

node job::node_at(node_id id) const {
  detail::job_state& own = state();
  if (!own.members->has(id)) throw error(missing_node_text(id, size()), id);
  return {own, id};
}
} // namespace farcall
