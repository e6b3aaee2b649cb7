// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/lost_servers.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace farcall::detail {
namespace {

/// Pauses before the attempts to restart a target. The first pause is short; after each failed
/// attempt the pause doubles, up to max_pause.
constexpr std::chrono::milliseconds first_pause{250};
constexpr std::chrono::milliseconds max_pause{8'000};
/// About ten minutes.
constexpr unsigned max_attempts = 80;
/// Time limit of one attempt. It is short, because the end of the job, and other threads that add
/// nodes, wait until the attempt has ended.
constexpr std::chrono::milliseconds attempt_time{5'000};
/// If a restarted target has not failed again for this time, the restart counts as successful.
constexpr std::chrono::seconds long_enough{60};

} // namespace

lost_servers::lost_servers(job_state& job)
    : job_(&job), thread_("farcall-service", [this](auto& lock) { return try_next(lock); }) {}

void lost_servers::node_failed(node_id node) noexcept {
  if (!is_enabled_ || job_->watch.is_removed(node)) return;
  try {
    const target_url& url = job_->host->url_of(node);
    // Do nothing for targets that are children of the host, because no server has started them.
    if (!find_transport(transports(), url.scheme)->make_launcher) return;
    const time_point now = clock::now();
    lost one{node, url, {0, first_pause}, now + first_pause};
    (void)thread_.submit([&] {
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
    });
  } catch (const std::exception& e) {
    log::warning(node_text(node) + " is not started again: " + e.what());
  }
}

time_point lost_servers::try_next(std::unique_lock<std::mutex>& lock) noexcept {
  if (all_.empty() || thread_.is_stopping()) return no_deadline;
  const auto first = std::min_element(all_.begin(), all_.end(),
                                      [](const lost& a, const lost& b) { return a.next < b.next; });
  if (clock::now() < first->next) return first->next;
  // Unlock the mutex during the attempt. `first` stays valid, because other threads only append to
  // all_ in the meantime.
  lock.unlock();
  const bool is_over = try_again(*first);
  lock.lock();
  if (is_over) all_.erase(first);
  return service_thread::at_once;
}

bool lost_servers::count_attempt(lost& one, attempts before) noexcept {
  one.tried = {before.count + 1, std::min(2 * before.pause, max_pause)};
  one.next = clock::now() + one.tried.pause;
  return one.tried.count < max_attempts;
}

void lost_servers::warn_of_the_last(const lost& one) {
  log::warning(node_text(one.node) + " is given up: it has come back " +
               std::to_string(one.tried.count) + " times and has not stayed");
}

bool lost_servers::try_again(lost& one) {
  const time_point deadline = deadline_after(std::min(job_->start_timeout, attempt_time));
  try {
    for (const node_id id : job_->host->add({one.url}, deadline)) {
      log::info(node_text(one.node) + " is back as " + node_text(id));
      came_back(one, id);
      job_->watch.node_joined(*job_, id, one.node);
    }
    return true;
  } catch (const std::exception& e) {
    if (count_attempt(one, one.tried)) return false;
    log::warning(node_text(one.node) + " is given up: " + e.what());
    return true;
  }
}

void lost_servers::came_back(const lost& before, node_id now) {
  const std::lock_guard guard(thread_.mutex());
  const auto failed =
      std::find_if(all_.begin(), all_.end(), [&](const lost& l) { return l.node == now; });
  if (failed == all_.end()) {
    returned_.push_back({now, before.tried, clock::now()});
  } else if (!count_attempt(*failed, before.tried)) {
    warn_of_the_last(*failed);
    all_.erase(failed);
  }
}

} // namespace farcall::detail
