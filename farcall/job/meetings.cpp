// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/meetings.hpp>

namespace farcall {

meetings::result meetings::wait(node_id node, time_point deadline,
                                const std::function<bool()>& is_known,
                                const std::function<void()>& ask) {
  std::unique_lock guard(mutex_);
  meeting& m = all_[node];
  if (m.waiting++ == 0) {
    guard.unlock();
    ask();
    guard.lock();
  }
  met_.wait_until(guard, deadline, [&] {
    return is_known() || failures_.contains(node) || m.is_absent || is_ending_;
  });
  result r{m.is_absent, ""};
  if (const auto failed = failures_.find(node); failed != failures_.end()) {
    r.failure = failed->second;
  } else if (is_ending_) {
    r.failure = "the job is ending";
  }
  if (--m.waiting == 0) all_.erase(node);
  return r;
}

void meetings::note_known() {
  // Lock and unlock the mutex before notifying. A waiting thread holds the mutex from its check
  // until it sleeps, and would otherwise miss a notification that comes between the two.
  {
    const std::lock_guard guard(mutex_);
  }
  met_.notify_all();
}

void meetings::note_failure(node_id node, const std::string& why) {
  {
    const std::lock_guard guard(mutex_);
    failures_.emplace(node, why);
  }
  met_.notify_all();
}

void meetings::note_absence(node_id node) {
  {
    const std::lock_guard guard(mutex_);
    if (const auto at = all_.find(node); at != all_.end()) at->second.is_absent = true;
  }
  met_.notify_all();
}

void meetings::end() noexcept {
  {
    const std::lock_guard guard(mutex_);
    is_ending_ = true;
  }
  met_.notify_all();
}

} // namespace farcall
