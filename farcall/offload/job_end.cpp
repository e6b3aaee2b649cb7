#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/process_exit.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job_end.hpp>
#include <farcall/offload/job_registry.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_trace.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
namespace {

using std::chrono::milliseconds;

/// Jobs that have ended, for uses that come later. Never destroyed.
class jobs_left_behind {
 public:
  [[nodiscard]] static jobs_left_behind& instance() {
    static auto* const all = new jobs_left_behind;
    return *all;
  }
  /// Keeps a job for handlers that did not return, and during exit() for threads that are between
  /// two calls.
  void keep(detail::job_state* job) {
    const std::lock_guard guard(mutex_);
    whole_.push_back(job);
  }
  /// Keeps the memory of a job that was destroyed, with a core whose client throws error, for
  /// handles. Frees the memory of the job before the last eight.
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
  std::size_t next_ = 0; ///< of cores_
};

/// Says that what was queued before it has run.
class marker final : public am::continuation {
 public:
  explicit marker(std::shared_ptr<std::promise<void>> passed) : passed_(std::move(passed)) {}
  void run() noexcept override {
    passed_->set_value();
    delete this;
  }

 private:
  std::shared_ptr<std::promise<void>> passed_;
};

/// Returns false if the job has to stay in memory.
bool end_plain(detail::job_state& job) noexcept {
  if (job.end()) return true;
  log::error("the job has ended, but a handler, continuation or copy of this process did not " +
             std::to_string(job.members->stop_timeout().count()) +
             " ms (stop_timeout) later: its thread, and what the job has in memory, stay");
  return false;
}

} // namespace

void detail::end_job(job_state* job) noexcept {
  // In a child of a fork, what the job is made of stays as it is: the threads and processes that
  // would have to end are the parent's.
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

// Inline, g++ would take the delete for one of the usual operator.
[[gnu::noinline]] void* detail::job_state::operator new(std::size_t bytes) {
  return ::operator new(bytes);
}

void detail::job_state::operator delete(void* memory) noexcept {
  jobs_left_behind::instance().keep_core(memory);
}

detail::job_state::~job_state() {
  if (!has_ended_) (void)end();
}

void detail::job_state::finish_copies(milliseconds duration) {
  const time_point deadline = deadline_after(duration);
  copies.finish(duration);
  if (!copies.has_started()) return;
  const auto passed = std::make_shared<std::promise<void>>();
  am::continuation_list behind;
  behind.push_back(*new marker(passed));
  engine->other_thread().take(behind);
  (void)passed->get_future().wait_until(deadline);
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
  copies.finish(std::max(left, milliseconds(0)));
}

bool detail::job_state::end() noexcept {
  has_ended_ = true;
  job_registry::instance().remove(this);
  if (!engine) return true;
  time_point deadline = no_deadline;
  if (as_equals && as_equals->is_closed) {
    engine->detach();
    // No other node sends anything any more.
    engine->finish();
    deadline = deadline_after(as_equals->stop_timeout);
  } else if (members->self() == host_id) {
    watch.stop();
    returns.stop();
    finish_copies(members->stop_timeout());
    engine->drain(deadline_after(members->stop_timeout()));
    // Targets can only send their last replies while we take them in. What then runs may wait for
    // one that has finished, which shows only afterwards.
    const am::continuations_elsewhere moved(engine->other_thread());
    members->shut_down([this] { engine->poll_all(); });
    deadline = deadline_after(members->stop_timeout());
  } else {
    // The host has said so behind its last call, which any worker may have; and it waits.
    engine->finish();
  }
  if (trace) trace->finish();
  const bool has_ended = engine->shut_down("the job has ended", deadline) && copies.stop(deadline);
  if (trace && members->self() == host_id) trace->write();
  if (!has_ended) return false;
  // The host of equals goes on watching them.
  if (as_equals && members->self() == host_id) return true;
  // Only now on a target: it has to notice until its last handler has ended that the host is gone.
  members->shut_down([] {});
  return true;
}

} // namespace farcall
