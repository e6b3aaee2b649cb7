// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_trace.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

namespace farcall {
namespace detail {
namespace {

/// True once this process has made or joined a job of equals. Relaxed, because the flag orders no
/// other memory accesses.
std::atomic<bool> has_made_one{false};

/// Throws error if the caller is not the thread that made the job, or is in a handler.
void require_main(const job_state& job, const char* what) {
  if (!job.as_equals) {
    throw error(std::string(what) + " is for jobs of equals (fc::spmd), and this is a plain one");
  }
  if (std::this_thread::get_id() != job.as_equals->thread) {
    throw error(std::string(what) + " is for the thread that made the job, and this is another");
  }
  if (am::worker_pool::is_in_handler()) throw error(std::string(what) + " is not for handlers");
}

/// Called on the other nodes when the host has ended. If the job is not over, ends this process.
void follow_host(const job_state& job) {
  if (job.members->is_over()) return;
  // Only node 1 logs the line, so that it appears once.
  if (job.members->self() == host_id + 1) {
    log::error(node_text(host_id) + ", process " +
               std::to_string(job.members->card_of(host_id).pid) +
               ", has ended without closing its job of equals; all nodes are ended");
  }
  ::_exit(1);
}

/// Data of at_exit(), which exit() calls in the process of the host.
struct exit_watch {
  job_state* job = nullptr;
  pid_t process = 0;
};

void at_exit(int status, void* argument) {
  const exit_watch watch = *static_cast<const exit_watch*>(argument);
  // Do nothing in a forked child, because the nodes belong to the parent.
  if (watch.process != ::getpid()) return;
  host_side& host = *watch.job->host;
  int code = 1;
  if (!watch.job->as_equals->is_closed) {
    host.give_up("exits with status " + std::to_string(status) +
                 " without closing its job of equals");
  } else {
    code = host.wait_for_others();
  }
  if (status != 0 || code == 0) return;
  std::fflush(nullptr);
  ::_exit(code);
}

} // namespace

collectives& collectives_of(job_state& job, const char* what) {
  require_main(job, what);
  return job.as_equals->collectives;
}

void require_first() {
  if (!has_made_one.load(std::memory_order_relaxed)) return;
  throw error("this process has made a job of equals already, and can make one only");
}

void watch_equals(job_state& job, std::function<void(const card&, const route&)> joined) {
  job_state* const s = &job;
  has_made_one.store(true, std::memory_order_relaxed);
  job.as_equals->exceptions = std::uncaught_exceptions();
  const auto notify = [s] { s->engine->waiter().notify(); };
  membership_events events{.node_joined = std::move(joined),
                           .node_failed =
                               [s, notify](node_id n, const std::string& why) {
                                 s->engine->fail(n, why);
                                 s->as_equals->collectives.note_failure(n);
                                 notify();
                                 if (s->host) s->watch.node_ended(*s, n, why);
                               },
                           .shut_down = notify,
                           .round_changed = notify,
                           .host_ended = [s] { follow_host(*s); }};
  job.on_side([&](auto& side) { side.watch(std::move(events)); });
}

void watch_exit(job_state& job) {
  // The object is static because exit() uses it last. One object is enough, because a process has
  // at most one job of equals.
  static exit_watch watch;
  watch = {&job, ::getpid()};
  static_cast<void>(::on_exit(&at_exit, &watch));
}

void close_equals(job_state& job) {
  require_main(job, "close()");
  if (job.as_equals->is_closed) return;
  const members& members = *job.members;
  const std::chrono::milliseconds stop_timeout = job.as_equals->stop_timeout;
  job.copies->finish(stop_timeout);
  try {
    job.as_equals->collectives.end(job);
  } catch (const node_failed& e) {
    // If a node has failed, close the job nevertheless, because the other nodes can end it without
    // the failed one.
    log::info(e.what());
  }
  // On a node that is not the host, send the rest of the trace now, while the host still serves
  // calls.
  if (job.trace && members.self() != host_id) job.trace->finish();
  // In each round, this node first reports whether it was active, and then waits for the next
  // round. In the first round, it reports that it was active. It does not call settle() to find
  // out, because settle() waits for other nodes, which may still compute for long.
  for (bool was_active = true; !members.is_over();) {
    struct question {
      const farcall::members& members;
      std::uint32_t round;
    } asked{members, members.round()};
    job.on_side([was_active](auto& side) { side.be_quiet(was_active); });
    (void)job.engine->waiter().wait_until(
        [](void* q) noexcept {
          const auto& it = *static_cast<const question*>(q);
          return it.members.is_over() || it.members.round() != it.round;
        },
        &asked, true, no_deadline);
    if (!members.is_over()) was_active = job.engine->settle(deadline_after(stop_timeout));
  }
  job.as_equals->is_closed = true;
}

bool end_equals(job_state& job) noexcept {
  std::string why;
  if (!job.as_equals->is_closed) {
    if (std::uncaught_exceptions() > job.as_equals->exceptions) {
      why = "has left its job of equals by an exception";
    } else {
      try {
        close_equals(job);
      } catch (const std::exception& e) {
        why = std::string("cannot close its job of equals: ") + e.what();
      }
    }
  }
  if (!why.empty()) {
    job.on_side([&why](auto& side) { side.give_up(why); });
    if (!am::worker_pool::is_in_handler()) job.engine->workers().detach();
    return false;
  }
  if (job.end()) return job.members->self() != host_id;
  log::error("the job is closed, but a continuation or copy of this process did not return " +
             std::to_string(job.as_equals->stop_timeout.count()) +
             " ms (stop_timeout) later: its thread, and what the job has in memory, stay");
  return false;
}

} // namespace detail

void job::survive(bool goes_on) {
  detail::job_state& own = state();
  if (!own.as_equals)
    throw error("a plain job goes on when a target ends, and cannot do otherwise");
  if (own.host) own.host->survive(goes_on);
}

void job::barrier(time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "barrier()").barrier(own, deadline_after(limit));
}

void job::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "all_gather()").all_gather(own, mine, all, deadline_after(limit));
}

void job::broadcast(std::span<std::byte> bytes, node_id root, time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "broadcast()").broadcast(own, bytes, root, deadline_after(limit));
}

void job::reduce_by(const detail::reduction& how, std::span<const std::byte> mine,
                    std::span<std::byte> result, node_id root, time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "reduce()")
      .reduce(own, mine, result, how, root, deadline_after(limit));
}

void job::all_reduce_by(const detail::reduction& how, std::span<std::byte> values,
                        time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "all_reduce()").all_reduce(own, values, how, deadline_after(limit));
}

void job::scan_by(const detail::reduction& how, std::span<std::byte> values, time_limit limit) {
  detail::job_state& own = state();
  detail::collectives_of(own, "scan()").scan(own, values, how, deadline_after(limit));
}

} // namespace farcall
