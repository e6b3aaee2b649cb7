// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/async/job_registry.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/process_exit.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job_end.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
namespace {

using std::chrono::milliseconds;

/// Keeps the memory of jobs that have ended, because handles and threads may still use it. The
/// object is never destroyed.
class jobs_left_behind {
 public:
  [[nodiscard]] static jobs_left_behind& instance() {
    static auto* const all = new jobs_left_behind;
    return *all;
  }
  /// Keeps the whole job in memory. Used if some of its handlers did not return. Also used during
  /// exit(), because other threads may then be about to use the job.
  void keep(detail::job_state* job) {
    const std::lock_guard guard(mutex_);
    whole_.push_back(job);
  }
  /// Keeps the memory of a destroyed job, because handles may outlive the job. Puts a job_core into
  /// the memory whose client throws error, so that such a handle gets an exception. Keeps the last
  /// eight jobs, and frees older memory.
  void keep_core(void* memory) {
    auto* const core = new (memory) detail::job_core;
    core->client = &am::live_clients::ended();
    const std::lock_guard guard(mutex_);
    ::operator delete(std::exchange(cores_[next_++ % cores_.size()], memory));
  }

 private:
  std::mutex mutex_;
  std::vector<detail::job_state*> whole_;
  std::array<void*, 8> cores_{};
  std::size_t next_ = 0; ///< index in cores_
};

/// Ends a plain job. Returns false if code of the program still runs, so that the job must stay in
/// memory.
bool end_plain(detail::job_state& job) noexcept {
  if (job.end()) return true;
  log::error("the job has ended, but a handler, continuation or copy of this process did not " +
             std::to_string(job.host->stop_timeout().count()) +
             " ms (stop_timeout) later: its thread, and what the job has in memory, stay");
  return false;
}

} // namespace

void detail::end_job(job_state* job) noexcept {
  // In a forked child, leave the job as it is, because its threads and its nodes belong to the
  // parent.
  if (job == nullptr || job->client->is_forked()) return;
  struct log_at_end {
    ~log_at_end() { am::log_dropped_errors(); }
  } const behind_the_job;
  const bool is_unused = job->as_equals ? end_equals(*job) : end_plain(*job);
  if (is_unused && !is_exiting()) {
    delete job;
  } else {
    jobs_left_behind::instance().keep(job);
  }
}

// Not inline. Otherwise g++ takes the delete expression for a call of the usual operator.
[[gnu::noinline]] void* detail::job_state::operator new(std::size_t bytes) {
  return ::operator new(bytes);
}

void detail::job_state::operator delete(void* memory) noexcept {
  jobs_left_behind::instance().keep_core(memory);
}

detail::job_state::~job_state() {
  if (!has_ended_) (void)end();
}

bool detail::job_state::end() noexcept {
  has_ended_ = true;
  job_registry::instance().remove(this);
  if (!engine) return true;
  time_point deadline = no_deadline;
  if (as_equals && as_equals->is_closed) {
    engine->workers().detach();
    // End the workers without waiting for further messages, because no node sends any after the job
    // was closed.
    engine->workers().finish();
    deadline = deadline_after(as_equals->stop_timeout);
  } else if (host) {
    watch.stop();
    returns.stop();
    copies->finish(host->stop_timeout());
    engine->drain(deadline_after(host->stop_timeout()));
    // Take replies until the targets have ended, because a target can send its last replies only
    // while the host takes them. Run the continuations on another thread, because a continuation
    // may wait for a target whose end only shut_down() notices, so that it must not block this
    // thread.
    const am::continuations_elsewhere moved(engine->other_thread());
    host->shut_down([this] { engine->waiter().poll_all(); });
    deadline = deadline_after(host->stop_timeout());
  } else {
    // On a target, end the workers now. The host asks a target to end only after the host's last
    // call, and then waits for the end of the target. Any worker may execute this last call.
    engine->workers().finish();
  }
  if (trace) trace->finish();
  const bool has_ended =
      engine->shut_down("the job has ended", deadline) && copies->thread.stop(deadline);
  if (trace && host) trace->write();
  if (!has_ended) return false;
  // The host of a job of equals continues to watch the other nodes.
  if (as_equals && host) return true;
  // On a target, watch the host until the last handler has ended, because this process must end if
  // the host ends before.
  if (target) target->stop();
  return true;
}

} // namespace farcall
