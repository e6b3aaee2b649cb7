#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/lost_servers.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace farcall::detail {
namespace {

/// From one attempt to the next: the first pause, which doubles up to the longest.
constexpr std::chrono::milliseconds first_pause{250};
constexpr std::chrono::milliseconds longest_pause{8'000};
/// Some ten minutes.
constexpr unsigned most_attempts = 80;
/// For one, so that the end of the job, and others that add nodes, do not wait for long.
constexpr std::chrono::milliseconds attempt_time{5'000};
/// A target that has been there for so long was no failed attempt.
constexpr std::chrono::seconds long_enough{60};

} // namespace

void lost_servers::node_failed(job_state& job, node_id node) noexcept {
  if (!is_enabled_ || job.watch.is_removed(node)) return;
  try {
    const target_url& url = job.members->url_of(node);
    if (url.scheme != "tcp") return;
    const std::lock_guard guard(mutex_);
    if (is_stopping_) return;
    const time_point now = clock::now();
    lost one{node, url, {0, first_pause}, now + first_pause};
    returned_.remove_if([&](const returned& r) { return now - r.since > long_enough; });
    const auto before = std::find_if(returned_.begin(), returned_.end(),
                                     [&](const returned& r) { return r.node == node; });
    if (before != returned_.end()) {
      const attempts tried = before->tried;
      returned_.erase(before);
      if (!count_attempt(one, tried)) {
        warn_of_the_last(one);
        return;
      }
    }
    all_.push_back(std::move(one));
    if (!thread_.joinable()) thread_ = std::thread([this, &job] { run(job); });
  } catch (const std::exception& e) {
    log::warning(node_text(node) + " is not started again: " + e.what());
  }
  changed_.notify_one();
}

void lost_servers::run(job_state& job) noexcept {
  leave_signals_to_other_threads();
  std::unique_lock guard(mutex_);
  while (!is_stopping_) {
    if (all_.empty()) {
      changed_.wait(guard);
      continue;
    }
    const auto first = std::min_element(
        all_.begin(), all_.end(), [](const lost& a, const lost& b) { return a.next < b.next; });
    if (clock::now() < first->next) {
      changed_.wait_until(guard, first->next);
      continue;
    }
    // Others only append.
    guard.unlock();
    const bool is_over = try_again(job, *first);
    guard.lock();
    if (is_over) all_.erase(first);
  }
}

bool lost_servers::count_attempt(lost& one, attempts before) noexcept {
  one.tried = {before.count + 1, std::min(2 * before.pause, longest_pause)};
  one.next = clock::now() + one.tried.pause;
  return one.tried.count < most_attempts;
}

void lost_servers::warn_of_the_last(const lost& one) {
  log::warning(node_text(one.node) + " is given up: it has come back " +
               std::to_string(one.tried.count) + " times and has not stayed");
}

bool lost_servers::try_again(job_state& job, lost& one) {
  const time_point deadline = deadline_after(std::min(job.start_timeout, attempt_time));
  try {
    for (const node_id id : job.members->add({one.url}, deadline)) {
      log::info(node_text(one.node) + " is back as " + node_text(id));
      came_back(one, id);
      job.watch.node_joined(job, id, one.node);
    }
    return true;
  } catch (const std::exception& e) {
    if (count_attempt(one, one.tried)) return false;
    log::warning(node_text(one.node) + " is given up: " + e.what());
    return true;
  }
}

void lost_servers::came_back(const lost& before, node_id now) {
  const std::lock_guard guard(mutex_);
  const auto failed =
      std::find_if(all_.begin(), all_.end(), [&](const lost& l) { return l.node == now; });
  if (failed == all_.end()) {
    returned_.push_back({now, before.tried, clock::now()});
  } else if (!count_attempt(*failed, before.tried)) {
    warn_of_the_last(*failed);
    all_.erase(failed);
  }
}

void lost_servers::stop() noexcept {
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

} // namespace farcall::detail
