// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/host_side.hpp>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include <unistd.h>

/// Functions of the host of a job of equals that end the job. A job ends either together, in
/// rounds, or because one of its nodes ends early.
namespace farcall {
namespace {

/// If an exception ends a node, the node sends the host its reason. The host then waits for this
/// time for the end of the node's process, so that it can report the process's exit status.
constexpr std::chrono::milliseconds leave_time{50};
/// Time between two checks of whether a process has finished writing its fault report and has
/// ended.
constexpr std::chrono::milliseconds poll_interval{1};
/// Maximum time for which the host, before it exits, waits for the end of the processes that it has
/// killed. Also the maximum time for which give_up() waits for the thread that kills these
/// processes.
constexpr std::chrono::milliseconds time_to_end{100};

/// Exit code of the job if a node has ended without closing the job, and the exit code of that node
/// is 0 or unknown.
constexpr int not_closed_status = 1;

} // namespace

// ---- together -----------------------------------------------------------------------------------

void host_side::be_quiet(bool was_active) {
  own_was_active_.store(was_active, std::memory_order_relaxed);
  // Release, paired with the acquire load in end_round(), so that own_was_active_ is visible there.
  own_quiet_in_.store(members_.round(), std::memory_order_release);
  look_around();
}

void host_side::end_round() {
  if (own_quiet_in_.load(std::memory_order_acquire) == rounds_.round()) {
    rounds_.note_quiet(host_id, rounds_.round(), own_was_active_.load(std::memory_order_relaxed));
  }
  const equals_rounds::outcome outcome = rounds_.end_round();
  if (outcome == equals_rounds::outcome::open) return;
  const bool is_last = outcome == equals_rounds::outcome::job_over;
  targets_.for_each([&](node_id node, target& t) {
    if (roster_.has_failed(node)) return;
    if (is_last) {
      notify(t, messages::shut_down{});
      t.ending.is_told_to_stop = true;
    } else {
      notify(t, messages::round{rounds_.round()});
    }
  });
  if (is_last) {
    members_.note_end();
  } else {
    members_.begin_round(rounds_.round());
  }
  if (events_.round_changed) events_.round_changed();
}

int host_side::wait_for_others() {
  for (transport* const t : members_.transports())
    t->before_exit();
  std::unique_lock guard(lost_mutex_);
  // Wait without a timeout, because the other processes still run the user's code, which may take
  // any time.
  lost_.wait(guard, [this] {
    bool are_lost = true;
    targets_.for_each([&](node_id /*node*/, const target& t) {
      are_lost = are_lost && t.is_lost.load(std::memory_order_acquire);
    });
    return are_lost;
  });
  const int code = exit_code_;
  guard.unlock();
  output_.finish();
  return code;
}

// ---- because one ends ---------------------------------------------------------------------------

void host_side::take_leave(node_id node, target& t) {
  if (t.ending.is_told_to_stop) return;
  t.ending.has_left = true;
  const bool has_ended = t.process->wait(clock::now() + leave_time).has_value();
  if (!survives_.load(std::memory_order_relaxed)) {
    (void)lose_equal(node, t, node_text(node) + t.process->end_text(t.ending.reason));
  }
  if (has_ended) return;
  t.kill();
}

bool host_side::lose_equal(node_id node, target& t, const std::string& why) {
  // If the job has not started, do not log the reason, because the constructor of the job throws an
  // exception that contains the reason.
  if (has_given_up_.load(std::memory_order_relaxed) || !is_started_) return false;
  const int code = t.ending.exit_code(*t.process);
  if (t.ending.is_told_to_stop) {
    // If a node was told to stop before the job was over, the job could not start. Do not log the
    // end of this node, because the constructor of the job throws the reason.
    if (code <= 0 || !members_.is_over()) return false;
    log::error(fault_in_one_line(why) + ", after its job of equals was closed");
    const std::lock_guard guard(lost_mutex_);
    if (exit_code_ == 0) exit_code_ = code;
    return false;
  }
  const int status = code > 0 ? code : not_closed_status;
  const std::string text =
      fault_in_one_line(why) + (t.ending.has_left ? "" : " without closing its job of equals");
  if (!survives_.load(std::memory_order_relaxed)) {
    log::error(text + "; all nodes are ended, with exit code " + std::to_string(status));
    if (t.ending.is_reporting) await_report(node, t);
    end_all(status);
  }
  log::warning(text + "; the other nodes go on");
  return true;
}

void host_side::note_lost_lane(node_id node) {
  target* const t = targets_.find(node);
  if (t == nullptr || members_.is_over()) return;
  t->has_lost_lane.store(true, std::memory_order_relaxed);
  look_around();
}

void host_side::end_after_lost_lane(node_id node, target& t) {
  if (!t.has_lost_lane.exchange(false, std::memory_order_relaxed) || t.ending.is_told_to_stop)
    return;
  t.ending.reason = "the connection of a lane between it and " + node_text(host_id) +
                    " ended, and messages with it, so it was killed";
  kill(node, t);
}

void host_side::kill_all_but(node_id spared) noexcept {
  targets_.for_each([&](node_id node, target& t) {
    if (!t.process || node == spared) return;
    t.kill();
  });
}

void host_side::await_report(node_id node, target& t) {
  // Kill the other processes only if this host has started them. If a process manager has started
  // them, it kills them itself, and its report names the process that ends first.
  if (starter_.ranks() == 0) kill_all_but(node);
  while (!has_ended(node, t)) {
    if (clock::now() >= t.ending.fault->report_until) return warn_of_report(node);
    std::this_thread::sleep_for(poll_interval);
  }
}

void host_side::end_all(int code) noexcept {
  kill_all_but(host_id);
  const time_point deadline = clock::now() + time_to_end;
  targets_.for_each([&](node_id node, target& t) {
    if (!t.process || roster_.has_failed(node)) return;
    try {
      if (t.process->wait(deadline)) t.process->reap();
    } catch (const std::exception&) {
      // Ignore the exception, which means that memory for a text about the process's end has run
      // out. The text is not used here.
    }
  });
  output_.finish();
  // End this process at once, because other threads may be in the middle of any code, so that
  // destructors and exit handlers cannot run safely.
  ::_exit(code);
}

void host_side::give_up(const std::string& why) {
  if (!options_.are_equals || has_given_up_.exchange(true, std::memory_order_relaxed)) return;
  log::error(node_text(host_id) + " " + why + "; all nodes are ended");
  // Wake the failure detector's thread, which kills the other nodes and reaps them. If that thread
  // cannot do so, for instance because memory ran out, the nodes end by themselves when this
  // process ends.
  look_around();
  std::unique_lock guard(lost_mutex_);
  (void)lost_.wait_for(guard, time_to_end, [this] { return are_killed_; });
  guard.unlock();
  output_.finish();
}

void host_side::follow_giving_up() noexcept {
  if (are_killed_ || !has_given_up_.load(std::memory_order_relaxed)) return;
  kill_all_but(host_id);
  {
    const std::lock_guard guard(lost_mutex_);
    are_killed_ = true;
  }
  lost_.notify_all();
}

} // namespace farcall
