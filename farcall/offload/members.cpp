// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/continuation.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/node_change.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

/// Functions by which a program adds and removes nodes of a running job, and is told of such
/// changes.
namespace farcall {
namespace {

/// Calls the program's functions for the pending changes of nodes. Runs as a continuation.
class telling final : public am::continuation {
 public:
  explicit telling(detail::node_watch& watch) noexcept : watch_(watch) {}

  void run() noexcept override {
    watch_.tell_all();
    delete this;
  }

 private:
  detail::node_watch& watch_;
};

/// Throws error if the node belongs to another job, or to none.
void require_own(const detail::job_core& job, const node& n) {
  job.client->require_own_process();
  if (n.job() != &job || !n.has_job()) throw error("this node belongs to another job, or to none");
}

/// Throws error in a job of equals, because its nodes cannot change.
void require_plain(const detail::job_state& job) {
  if (job.as_equals) throw error("a job of equals has the nodes that it has started with");
}

/// Returns the host_side. Throws error on a target; `what` is text for the error that names the
/// operation, which only the host can execute.
host_side& require_host(const detail::job_state& job, const char* what) {
  if (job.host) return *job.host;
  throw error(std::string("only the host can ") + what + ", and this process is " +
              node_text(job.members->self()) + "; let it call the host for that");
}

/// Throws error if the job has no such node, or if the node is alive. `what` says in the error what
/// cannot be done with the node.
void require_failed(const detail::job_state& job, node_id id, const char* what) {
  if (!job.members->has(id)) throw error("the job has no " + node_text(id), id);
  if (job.engine->has_failed(id)) return;
  throw error(node_text(id) + " is alive, and cannot be " + what + "; remove it first", id);
}

/// Returns the host_side, by which a node can be added to the job. Throws error on a target, and in
/// a job of equals.
host_side& require_growing(const detail::job_state& job) {
  require_plain(job);
  return require_host(job, "add nodes to a job");
}

std::vector<node> add_all(detail::job_state& state, const std::vector<target_url>& urls,
                          node_id replaced = no_node) {
  std::vector<node> added;
  host_side& host = require_growing(state);
  for (const node_id id : host.add(urls, deadline_after(state.start_timeout))) {
    added.emplace_back(state, id);
    state.watch.node_joined(state, id, replaced);
  }
  return added;
}

} // namespace

// ---- what is told -------------------------------------------------------------------------------

void detail::observe(job_state& job, std::shared_ptr<node_observer> observer) {
  state_of(job).watch.add(std::move(observer));
}

void detail::node_watch::add(std::shared_ptr<node_observer> observer) {
  const std::lock_guard guard(mutex_);
  observers_.push_back(std::move(observer));
}

void detail::node_watch::tell(node_event event) {
  if (is_stopped_ || observers_.empty()) return;
  to_tell_.emplace_back(observers_, std::make_shared<const node_event>(std::move(event)));
}

void detail::node_watch::tell_soon(job_state& job) {
  {
    const std::lock_guard guard(mutex_);
    // If another continuation already reports events, do not start a second one. Otherwise two
    // events could be reported at the same time, because a thread may run other continuations while
    // an observer waits.
    if (to_tell_.empty() || std::exchange(is_telling_, true)) return;
  }
  am::continuation_list due;
  due.push_back(*new telling(*this));
  // Report the event on another thread. This thread has noticed the change, and must not wait for
  // the observers, which are code of the program.
  job.engine->other_thread().take(due);
}

void detail::node_watch::tell_all() noexcept {
  std::unique_lock guard(mutex_);
  while (!to_tell_.empty()) {
    const auto [observers, event] = std::move(to_tell_.front());
    to_tell_.pop_front();
    guard.unlock();
    const std::string about = "what was to be told of a change of " + node_text(event->where.id());
    for (const auto& observer : observers) {
      try {
        observer->changed(*event);
      } catch (const std::exception& e) {
        log::warning(about + " threw " +
                     thrown_text(demangle(typeid(e).name()), exception_text(e)));
      } catch (...) {
        log::warning(about + " threw something");
      }
    }
    guard.lock();
  }
  is_telling_ = false;
}

void detail::node_watch::node_joined(job_state& job, node_id node, node_id replaces) {
  {
    const std::lock_guard guard(mutex_);
    joined_.insert(node);
    tell({{job, node}, node_change::joined, "", replaces});
    if (const auto at = ended_early_.find(node); at != ended_early_.end())
      tell_end(job, node, at->second);
  }
  tell_soon(job);
}

void detail::node_watch::node_ended(job_state& job, node_id node, const std::string& why) {
  {
    const std::lock_guard guard(mutex_);
    if (node < first_to_join_ || joined_.contains(node)) {
      tell_end(job, node, why);
    } else {
      ended_early_.emplace(node, why);
    }
  }
  tell_soon(job);
}

void detail::node_watch::tell_end(job_state& job, node_id node, const std::string& why) {
  const bool is_removed = removed_.contains(node);
  tell({{job, node}, is_removed ? node_change::removed : node_change::failed, why, no_node});
}

bool detail::node_watch::remove(node_id node) {
  const std::lock_guard guard(mutex_);
  return removed_.insert(node).second;
}

bool detail::node_watch::is_removed(node_id node) {
  const std::lock_guard guard(mutex_);
  return removed_.contains(node);
}

void detail::node_watch::stop() noexcept {
  // Declared before the guard, so that the objects in these lists are destroyed after the mutex is
  // unlocked.
  observers gone;
  decltype(to_tell_) unreported;
  const std::lock_guard guard(mutex_);
  is_stopped_ = true;
  gone.swap(observers_);
  unreported.swap(to_tell_);
}

// ---- what is done -------------------------------------------------------------------------------

std::size_t job::size() const noexcept {
  return state_ != nullptr ? state_->members->nodes() : closed_size_;
}

std::vector<node> job::live_targets() const {
  detail::job_state& own = state();
  std::vector<node> live;
  for (const node_id id : own.members->known_nodes()) {
    if (id != host_id && !own.engine->has_failed(id) && !own.watch.is_removed(id))
      live.emplace_back(own, id);
  }
  return live;
}

node detail::add_target(job_state& job, std::string_view url) {
  const std::vector<target_url> urls = parse_targets(url);
  if (urls.size() != 1) {
    throw setting_error("\"" + std::string(url) + "\" stands for " + std::to_string(urls.size()) +
                        " targets, and one is to be added; add() takes a span of URLs, too");
  }
  return add_all(job, urls).front();
}

node detail::add_existing_target(job_state& job, unique_fd socket, std::uint32_t workers,
                                 node_id replaces) {
  host_side& host = require_growing(job);
  if (replaces != no_node) require_failed(job, replaces, "replaced");
  settings::check(settings::row("workers"), "the number of workers", std::to_string(workers));
  const node_id id =
      host.add_existing(std::move(socket), workers, deadline_after(job.start_timeout));
  job.watch.node_joined(job, id, replaces);
  return {job, id};
}

node job::add_existing(int socket, std::uint32_t workers, node_id replaces) {
  unique_fd owned(socket);
  return detail::add_existing_target(state(), std::move(owned), workers, replaces);
}

node job::add(std::string_view url) { return detail::add_target(state(), url); }

std::vector<node> job::add(std::span<const std::string> urls) {
  detail::job_state& own = state();
  std::vector<target_url> all;
  for (const std::string& url : urls) {
    for (target_url& parsed : parse_targets(url))
      all.push_back(std::move(parsed));
  }
  return add_all(own, all);
}

void detail::remove_target(const node& target) {
  job_state& job = state_of(*target.job());
  require_plain(job);
  const node_id id = target.id();
  host_side& host = require_host(job, "remove nodes from a job");
  (void)job.members->route_to(id);
  if (id != host_id && job.members->hosted(id) == nullptr) {
    if (job.engine->has_failed(id)) return;
    // If several threads remove the node at the same time, only the first one refuses new calls.
    // All of them wait for the node's end.
    if (job.watch.remove(id))
      job.engine->lanes().refuse_calls_to(id, node_text(id) + " was removed");
  }
  // While this function waits, calls end whose continuations must run. Run these on the completion
  // thread, because a continuation may wait for something that this thread does.
  const am::continuations_elsewhere moved(job.engine->other_thread());
  // Use the same deadline for the node's calls and for the end of its process, so that both
  // together take at most the stop timeout.
  const time_point deadline = deadline_after(host.stop_timeout());
  job.engine->drain(deadline, id);
  host.remove(id, deadline, [&job] { job.engine->waiter().poll_all(); });
}

void job::remove(const node& target) {
  require_own(state(), target);
  detail::remove_target(target);
}

node detail::restart_target(const node& failed) {
  job_state& job = state_of(*failed.job());
  const node_id id = failed.id();
  require_failed(job, id, "started again");
  const target_url& url = require_host(job, "start nodes of a job again").url_of(id);
  return add_all(job, {url}, id).front();
}

node job::restart(const node& failed) {
  require_own(state(), failed);
  return detail::restart_target(failed);
}

} // namespace farcall
