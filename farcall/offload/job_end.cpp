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
#include <atomic>
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

/// Jobs that may still be used: by handlers that did not return, and during exit() by threads that
/// are between two calls. Never destroyed.
struct jobs_left_behind {
  std::mutex mutex;
  std::vector<detail::job_state*> all;

  static void add(detail::job_state* job) {
    static auto* const left = new jobs_left_behind;
    const std::lock_guard guard(left->mutex);
    left->all.push_back(job);
  }
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

} // namespace

void detail::end_job(job_state* job) noexcept {
  // In a child of a fork, what the job is made of stays as it is: the threads and processes that
  // would have to end are the parent's.
  if (job == nullptr || job->client->is_forked()) return;
  struct log_at_end {
    ~log_at_end() { am::log_dropped_errors(); }
  } const behind_the_job;
  if (job->as_equals) {
    if (end_equals(*job) && !is_exiting()) {
      delete job;
    } else {
      jobs_left_behind::add(job);
    }
    return;
  }
  if (job->end()) {
    if (is_exiting()) {
      jobs_left_behind::add(job);
    } else {
      delete job;
    }
    return;
  }
  log::error("the job has ended, but a handler, continuation or copy of this process did not " +
             std::to_string(job->members->stop_timeout().count()) +
             " ms (stop_timeout) later: its thread, and what the job has in memory, stay");
  jobs_left_behind::add(job);
}

// Inline, g++ would take the delete for one of the usual operator.
[[gnu::noinline]] void* detail::job_state::operator new(std::size_t bytes) {
  return ::operator new(bytes);
}

void detail::job_state::operator delete(void* memory) noexcept {
  static constinit std::array<std::atomic<void*>, 8> last{};
  static constinit std::atomic<std::size_t> count{0};
  auto* const core = new (memory) job_core;
  core->client = &am::live_clients::ended();
  // Relaxed: it only gives out places.
  const std::size_t place = count.fetch_add(1, std::memory_order_relaxed) % last.size();
  // Acquire-release: another thread may free what this one has put there.
  ::operator delete(last[place].exchange(memory, std::memory_order_acq_rel));
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
