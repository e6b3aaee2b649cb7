#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
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

/// This process has, or had, a job of equals. Relaxed: it orders nothing.
std::atomic<bool> has_made_one{false};

/// Throws error for what only the thread that made the job may do, outside handlers.
void require_main(const job_state& job, const char* what) {
  if (!job.as_equals) {
    throw error(std::string(what) + " is for jobs of equals (fc::spmd), and this is a plain one");
  }
  if (std::this_thread::get_id() != job.as_equals->thread) {
    throw error(std::string(what) + " is for the thread that made the job, and this is another");
  }
  if (am::engine::is_in_handler()) throw error(std::string(what) + " is not for handlers");
}

collectives& collectives_of(job_state& job, const char* what) {
  require_main(job, what);
  return job.as_equals->collectives;
}

/// The host has ended, and has not ended us.
void follow_host(const job_state& job) {
  if (job.members->is_over()) return;
  // Once is enough.
  if (job.members->self() == host_id + 1) {
    log::error(node_text(host_id) + ", process " +
               std::to_string(job.members->card_of(host_id).pid) +
               ", has ended without closing its job of equals; all nodes are ended");
  }
  ::_exit(1);
}

/// What has to be known at exit() of the host's process.
struct exit_watch {
  job_state* job = nullptr;
  pid_t process = 0;
};

void at_exit(int status, void* argument) {
  const exit_watch watch = *static_cast<const exit_watch*>(argument);
  // A child of a fork.
  if (watch.process != ::getpid()) return;
  membership& members = *watch.job->members;
  int code = 1;
  if (!watch.job->as_equals->is_closed) {
    members.give_up("exits with status " + std::to_string(status) +
                    " without closing its job of equals");
  } else {
    code = members.wait_for_others();
  }
  if (status != 0 || code == 0) return;
  std::fflush(nullptr);
  ::_exit(code);
}

} // namespace

void require_first() {
  if (!has_made_one.load(std::memory_order_relaxed)) return;
  throw error("this process has made a job of equals already, and can make one only");
}

void watch_equals(job_state& job, std::function<void(const card&, const route&)> joined) {
  job_state* const s = &job;
  has_made_one.store(true, std::memory_order_relaxed);
  job.as_equals->exceptions = std::uncaught_exceptions();
  const auto notify = [s] { s->engine->notify_local(); };
  job.members->watch({.node_joined = std::move(joined),
                      .node_failed =
                          [s, notify](node_id n, const std::string& why) {
                            s->engine->fail(n, why);
                            s->as_equals->collectives.note_failure(n);
                            notify();
                            if (s->members->self() == host_id) s->watch.node_ended(*s, n, why);
                          },
                      .shut_down = notify,
                      .round_changed = notify,
                      .host_ended = [s] { follow_host(*s); }});
}

void watch_exit(job_state& job) {
  // There is one such job in a process; and this is needed last of all.
  static exit_watch watch;
  watch = {&job, ::getpid()};
  static_cast<void>(::on_exit(&at_exit, &watch));
}

void close_equals(job_state& job) {
  require_main(job, "close()");
  if (job.as_equals->is_closed) return;
  membership& members = *job.members;
  const std::chrono::milliseconds stop_timeout = job.as_equals->stop_timeout;
  job.finish_copies(stop_timeout);
  try {
    job.as_equals->collectives.end(job);
  } catch (const node_failed& e) {
    // The others end without it.
    log::info(e.what());
  }
  // The host still serves.
  if (job.trace && members.self() != host_id) job.trace->finish();
  // In the first round nobody asks others for anything: they may compute for long.
  for (bool was_active = true; !members.is_over();) {
    struct question {
      const membership& members;
      std::uint32_t round;
    } asked{members, members.round()};
    members.be_quiet(was_active);
    (void)job.engine->wait_until(
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
    job.members->give_up(why);
    if (!am::engine::is_in_handler()) job.engine->detach();
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
  own.members->survive(goes_on);
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

} // namespace farcall
