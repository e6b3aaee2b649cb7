#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/host_membership.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include <unistd.h>

/// Jobs of equals, as their host sees them: how they end together, in rounds, or because one node
/// ends.
namespace farcall {
namespace {

/// How long one that leaves its job by an exception may take to print it and end, so that its exit
/// status can be told.
constexpr std::chrono::milliseconds leave_time{50};
/// From one look at a process that reports its fault to the next.
constexpr std::chrono::milliseconds look_interval{1};
/// From the kill of processes to their end, before this one ends.
constexpr std::chrono::milliseconds time_to_end{100};

/// What the job ends with when a node did not close it, and says nothing worse.
constexpr int not_closed_status = 1;

/// Joins the lines of a failure, each of which names a function, for the log.
std::string in_one_line(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    const std::size_t end = std::min(text.find_first_not_of(" \n", at), text.size());
    text.replace(at, end - at, text.substr(0, at).ends_with(", in") ? " " : ", ");
  }
  return text;
}

} // namespace

// ---- together -----------------------------------------------------------------------------------

void host_membership::be_quiet(bool was_active) {
  own_was_active_.store(was_active, std::memory_order_relaxed);
  // Release; partner: the acquire load in end_round().
  own_quiet_in_.store(round(), std::memory_order_release);
  look_around();
}

void host_membership::take_quiet(target& t, const messages::quiet& m) {
  if (m.round != round()) throw malformed_message("it is quiet in another round");
  t.quiet_in = m.round;
  t.was_active = m.was_active;
}

void host_membership::end_round() {
  const std::uint32_t now = round();
  if (is_over() || own_quiet_in_.load(std::memory_order_acquire) != now) return;
  bool are_all_quiet = true;
  bool was_active = own_was_active_.load(std::memory_order_relaxed);
  targets_.for_each([&](node_id node, const target& t) {
    if (roster_.has_failed(node)) return;
    are_all_quiet = are_all_quiet && t.quiet_in == now;
    was_active = was_active || t.was_active;
  });
  if (!are_all_quiet) return;
  targets_.for_each([&](node_id node, target& t) {
    if (roster_.has_failed(node)) return;
    if (was_active) {
      notify(t, messages::round{now + 1});
    } else {
      notify(t, messages::shut_down{});
      t.is_told_to_stop = true;
    }
  });
  // Release; partners: round() and is_over().
  if (was_active) {
    round_.store(now + 1, std::memory_order_release);
  } else {
    is_over_.store(true, std::memory_order_release);
  }
  if (events_.round_changed) events_.round_changed();
}

int host_membership::wait_for_others() {
  for (transport* const t : transports())
    t->before_exit();
  std::unique_lock guard(lost_mutex_);
  // Without a bound: they run the user's code, and the job is what they all do.
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

void host_membership::take_leave(node_id node, target& t) {
  if (t.is_told_to_stop) return;
  t.has_left = true;
  const bool has_ended = t.process->wait(clock::now() + leave_time).has_value();
  if (!survives_.load(std::memory_order_relaxed)) {
    (void)lose_equal(node, t, node_text(node) + t.process->end_text(t.last_words));
  }
  if (has_ended) return;
  const std::lock_guard guard(t.telling);
  t.process->kill();
}

bool host_membership::lose_equal(node_id node, target& t, const std::string& why) {
  // Of a job that has not begun, the constructor throws what is wrong.
  if (has_given_up_.load(std::memory_order_relaxed) || !is_started_) return false;
  const int code = t.process->exit_code().value_or(t.fault ? 128 + t.fault->signal : t.exit_code);
  if (t.is_told_to_stop) {
    // Those of a job that could not start are told, too; the constructor throws what is wrong.
    if (code <= 0 || !is_over()) return false;
    log::error(in_one_line(why) + ", after its job of equals was closed");
    const std::lock_guard guard(lost_mutex_);
    if (exit_code_ == 0) exit_code_ = code;
    return false;
  }
  const int status = code > 0 ? code : not_closed_status;
  const std::string text =
      in_one_line(why) + (t.has_left ? "" : " without closing its job of equals");
  if (!survives_.load(std::memory_order_relaxed)) {
    log::error(text + "; all nodes are ended, with exit code " + std::to_string(status));
    if (t.is_dying) await_report(node, t);
    end_all(status);
  }
  log::warning(text + "; the other nodes go on");
  return true;
}

void host_membership::cut_off(node_id node) {
  target* const t = targets_.find(node);
  if (t == nullptr || is_over()) return;
  t->is_cut_off.store(true, std::memory_order_relaxed);
  look_around();
}

void host_membership::end_cut_off(node_id node, target& t) {
  if (!t.is_cut_off.exchange(false, std::memory_order_relaxed) || t.is_told_to_stop) return;
  t.last_words = "the connection of a lane between it and " + node_text(host_id) +
                 " ended, and messages with it, so it was killed";
  {
    const std::lock_guard guard(t.telling);
    t.process->kill();
  }
  // Where a process tells its own end, it soon does.
  if (t.process->end_fd() < 0) lose(node, t);
}

void host_membership::kill_all_but(node_id spared) noexcept {
  targets_.for_each([&](node_id node, target& t) {
    if (!t.process || node == spared) return;
    const std::lock_guard guard(t.telling);
    t.process->kill();
  });
}

void host_membership::await_report(node_id node, target& t) {
  // A process manager tells of the process that ends first, and ends the rest.
  if (ranks() == 0) kill_all_but(node);
  while (!has_ended(node, t)) {
    if (clock::now() >= t.fault->report_until) return warn_of_report(node);
    std::this_thread::sleep_for(look_interval);
  }
}

void host_membership::end_all(int code) noexcept {
  kill_all_but(host_id);
  const time_point deadline = clock::now() + time_to_end;
  targets_.for_each([&](node_id node, target& t) {
    if (!t.process || roster_.has_failed(node)) return;
    try {
      if (t.process->wait(deadline)) t.process->reap();
    } catch (const std::exception&) {
      // There is no memory for words; nobody would read them.
    }
  });
  output_.finish();
  // The program's threads may be anywhere, so there is no orderly end.
  ::_exit(code);
}

void host_membership::give_up(const std::string& why) {
  if (!options_.are_equals || has_given_up_.exchange(true, std::memory_order_relaxed)) return;
  log::error(node_text(host_id) + " " + why + "; all nodes are ended");
  // The thread that watches them does it, which also reaps them. Where it cannot, as without
  // memory, they end with this process.
  look_around();
  std::unique_lock guard(lost_mutex_);
  (void)lost_.wait_for(guard, time_to_end, [this] { return are_killed_; });
  guard.unlock();
  output_.finish();
}

void host_membership::follow_giving_up() noexcept {
  if (are_killed_ || !has_given_up_.load(std::memory_order_relaxed)) return;
  kill_all_but(host_id);
  {
    const std::lock_guard guard(lost_mutex_);
    are_killed_ = true;
  }
  lost_.notify_all();
}

} // namespace farcall
