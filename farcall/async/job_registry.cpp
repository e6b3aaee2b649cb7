// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/job_registry.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <atomic>

namespace farcall::detail {
namespace {

bool is_forked(const job_core* job) noexcept { return job->client->is_forked(); }

} // namespace

constinit std::atomic<job_core*> only_core{nullptr};
constinit std::atomic<std::uint32_t> only_mark{0};

job_registry::job_registry() { watch_forks(); }

job_registry& job_registry::instance() {
  // The registry is never destroyed, because a job in a static object may end after all other
  // static objects.
  static auto* const all = new job_registry;
  return *all;
}

void job_registry::add(job_core* job) {
  const std::lock_guard guard(mutex_);
  jobs_.push_back(job);
  note_only();
}

void job_registry::remove(job_core* job) {
  const std::lock_guard guard(mutex_);
  std::erase(jobs_, job);
  note_only();
}

bool job_registry::empty() {
  const std::lock_guard guard(mutex_);
  return std::all_of(jobs_.begin(), jobs_.end(), is_forked);
}

bool job_registry::has_none() {
  const std::lock_guard guard(mutex_);
  return jobs_.empty();
}

bool job_registry::has(const job_core* job, std::uint32_t serial) {
  // Acquire, paired with the release store in note_only(), so that the job's members are visible.
  const job_core* const only = only_core.load(std::memory_order_acquire);
  if (only != nullptr && only == job) return only->serial == serial && !is_forked(only);
  const std::lock_guard guard(mutex_);
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const job_core* j) {
    return j == job && j->serial == serial && !is_forked(j);
  });
}

bool job_registry::has_marked(std::uint32_t mark) {
  const std::lock_guard guard(mutex_);
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const job_core* j) { return j->mark == mark; });
}

job_core& job_registry::only() {
  const std::lock_guard guard(mutex_);
  const auto first = std::find_if_not(jobs_.begin(), jobs_.end(), is_forked);
  if (first == jobs_.end()) {
    if (!jobs_.empty()) throw forked();
    throw error("this process has no job; make a farcall::job first");
  }
  if (std::find_if_not(first + 1, jobs_.end(), is_forked) != jobs_.end()) {
    throw error("this process has several jobs; ask the job itself (job.host(), job.node_at(i)), "
                "and pass buffers instead of their spans");
  }
  return **first;
}

void job_registry::note_only() noexcept {
  job_core* const only = jobs_.size() == 1 ? jobs_.front() : nullptr;
  only_core.store(only, std::memory_order_release);
  only_mark.store(only != nullptr ? only->mark : 0, std::memory_order_relaxed);
}

void job_registry::before_fork() noexcept { mutex_.lock(); }
void job_registry::after_fork_in_parent() noexcept { mutex_.unlock(); }
void job_registry::after_fork_in_child() noexcept { mutex_.unlock(); }

} // namespace farcall::detail
