// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/job_registry.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/started_target.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/job_setup.hpp>
#include <farcall/offload/job_trace.hpp>
#include <farcall/offload/serving.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall {

using detail::job_registry;

namespace {

/// Exit status of a target that cannot join its job. The host reports the reason.
constexpr int cannot_join_status = 70;

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
    refusal = detail::no_thread_text(e);
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

/// Joins a job as a target by calling `join`, and starts the threads that serve calls, except the
/// first worker's. `is_child` is true if the host has started this process as its child. Throws
/// error if another thread of this process already serves.
template <class Join>
std::unique_ptr<detail::job_state> join_as_target(Join&& join, bool is_child,
                                                  detail::first_worker first) {
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
    detail::set_up(*state, forwarded, true, first);
    if (!forwarded.service.empty()) {
      state->service = detail::service_entry().on_target(*state, forwarded.service);
    }
    am::engine& engine = *state->engine;
    // Capture a reference to the object instead of the pointer `state`. While the object is
    // destroyed, `state` is already null, but the functions may still be called.
    detail::job_state& all = *state;
    target.watch(
        {.node_joined = [&all](const card& c, const route& r) { detail::take_in(all, c, r); },
         .node_failed = [&engine](node_id n, const std::string& why) { engine.fail(n, why); },
         .shut_down = [&engine] { engine.workers().stop_when_done(); },
         .file_came =
             [service = state->service](std::uint64_t number, unique_fd file) {
               if (service) service->take_file(number, std::move(file));
             }});
    if (state->service) state->service->begin();
    engine.workers().start(1);
  } catch (const std::system_error& e) {
    detail::give_up_joining(*state, is_child, detail::no_thread_text(e).c_str());
  } catch (const std::exception& e) {
    detail::give_up_joining(*state, is_child, e.what());
  }
  return state;
}

/// Ends the part that this process has had in the job.
void leave_job(std::unique_ptr<detail::job_state> state) {
  if (state->service) state->service->finish();
  if (state->trace) state->trace->finish();
  state.reset();
  serving_process.store(0);
}

/// Joins a job as a target by calling `join`, and serves calls until the job ends. Throws what
/// join_as_target() throws.
template <class Join>
void serve(Join&& join, bool is_child) {
  auto state = join_as_target(join, is_child, detail::first_worker::library);
  {
    const signal_stack for_faults;
    const detail::context_scope scope(&state->context);
    state->engine->workers().serve(0);
  }
  leave_job(std::move(state));
}

/// Returns a function that joins the job of the host at the other end of `socket`, and takes
/// ownership of the socket. Throws error if this process cannot join it.
auto joins_by(int socket) {
  unique_fd to_host(socket);
  require_control_socket(socket);
  job_registry& all = job_registry::instance();
  if (!all.empty() || (detail::own_id() != host_id && !all.is_in_child())) {
    throw error("a process that has a job cannot join another as a target");
  }
  // Load the transports before joining, because an error at this point can be thrown, and after
  // joining could not be reported to a host.
  (void)transports();
  return [to_host = std::move(to_host)]() mutable {
    return target_side::join(port_connection{std::move(to_host), nullptr}, transports(),
                             detail::identity(), check_target);
  };
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

} // namespace

std::string detail::no_thread_text(const std::system_error& e) {
  std::string text = std::string("no thread can be made: ") + e.what();
  if (e.code() == std::errc::resource_unavailable_try_again) {
    text +=
        " (limit of processes and threads: 'ulimit -u', or of the container's pids; or limit of "
        "memory, which its stack takes: 'ulimit -d', 'ulimit -v')";
  }
  return text;
}

void detail::give_up_joining(job_state& state, bool is_child, const char* why) {
  // Normally the host prints the reason. If a launcher has started this process, it may end the
  // host before that, so this process also logs the reason as an error. A child of the host logs it
  // only at level info, because otherwise the line would appear once for each target.
  const std::string text = std::string("this target cannot join: ") + why;
  is_child ? log::info(text) : log::error(text);
  if (state.target) state.target->give_up(why);
  std::_Exit(cannot_join_status);
}

void detail::require_no_target() {
  // Check serving_process as well as own_id(). While another thread of this process joins a job as
  // a target, own_id() is not set yet.
  if (own_id() != host_id || serving_process.load() == ::getpid()) throw_no_second_job();
}

detail::start_kind detail::start_kind_of(const job_options& options) {
  if (is_started_target()) return start_kind::target;
  return own_id() == host_id && is_launched_target(process_manager_of(options)) && !is_server()
             ? start_kind::launched_target
             : start_kind::host;
}

std::unique_ptr<target_side> detail::join_host(const job_options& options, start_kind kind) {
  if (kind == start_kind::target) return target_side::join(transports(), identity(), check_target);
  std::optional<process_group> group;
  try {
    group = take_launched_group(process_manager_of(options));
    if (!group || group->size == 1) throw error("its process manager says that it is alone");
  } catch (const error& e) {
    throw error(std::string("this process was started as one of several: ") + e.what());
  }
  return join_group(*group, options);
}

std::unique_ptr<target_side> detail::join_group(const process_group& group,
                                                const job_options& options) {
  return target_side::join(group, timeout_for_host(options), transports(), identity(),
                           check_target);
}

void detail::serve_if_started(const job_options& options) {
  const start_kind kind = start_kind_of(options);
  if (kind == start_kind::host) return;
  // See joins_by().
  (void)transports();
  serve([&] { return join_host(options, kind); }, kind == start_kind::target);
  std::exit(0);
}

void serve_if_target() { detail::serve_if_started({}); }

bool serve_as_target() {
  const detail::start_kind kind = detail::start_kind_of({});
  if (kind == detail::start_kind::host) return false;
  // See joins_by().
  (void)transports();
  serve([kind] { return detail::join_host({}, kind); }, kind == detail::start_kind::target);
  return true;
}

void serve_as_target(int socket) {
  auto join = joins_by(socket);
  serve(join, false);
}

// ---- targets that serve by threads of the program -----------------------------------------------

detail::job_state* detail::open_served_job(int socket) {
  constexpr first_worker first = first_worker::pulled;
  if (socket >= 0) {
    auto join = joins_by(socket);
    return join_as_target(join, false, first).release();
  }
  const start_kind kind = start_kind_of({});
  if (kind == start_kind::host) return nullptr;
  // See joins_by().
  (void)transports();
  return join_as_target([kind] { return join_host({}, kind); }, kind == start_kind::target, first)
      .release();
}

bool detail::is_served_by_parts(job_state& job) noexcept {
  return job.engine->workers().pulled() != nullptr;
}

am::pulled_worker::outcome detail::serve_part(job_state& job, bool (*holds)(void*) noexcept,
                                              void* argument, time_point deadline) {
  const context_scope scope(&job.context);
  return job.engine->workers().pulled()->serve_until(holds, argument, deadline);
}

void detail::close_served_job(job_state& job) { leave_job(std::unique_ptr<job_state>(&job)); }

} // namespace farcall
