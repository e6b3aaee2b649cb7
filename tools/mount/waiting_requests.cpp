// SPDX-License-Identifier: Apache-2.0
#include "waiting_requests.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::mount {
namespace {

/// The one object, for the function that libfuse calls, which gets only a number.
waiting_requests* the_requests = nullptr;

} // namespace

waiting_requests::waiting_requests(target_process& target) : link_(target) {
  the_requests = this;
  std::thread([this] { run(); }).detach();
}

void waiting_requests::add(fuse_req_t request, pauses how_long, attempt tries) {
  std::uint64_t number = 0;
  {
    const std::lock_guard guard(mutex_);
    number = ++last_;
    all_.emplace(number, waiting{std::move(tries), clock::now() + how_long.first, how_long});
  }
  // libfuse calls the function at once if the request is interrupted already.
  ::fuse_req_interrupt_func(request, interrupt, reinterpret_cast<void*>(number));
  const std::lock_guard guard(mutex_);
  all_.at(number).has_begun = true;
  changed_.notify_one();
}

void waiting_requests::interrupt(fuse_req_t /*request*/, void* number) {
  const std::lock_guard guard(the_requests->mutex_);
  // The request may have been replied to in the meantime.
  const auto at = the_requests->all_.find(reinterpret_cast<std::uint64_t>(number));
  if (at == the_requests->all_.end()) return;
  at->second.is_interrupted = true;
  the_requests->changed_.notify_one();
}

void waiting_requests::run() noexcept {
  own_link() = &link_;
  std::unique_lock lock(mutex_);
  for (;;) {
    clock::time_point next = clock::time_point::max();
    bool is_due = false;
    for (const auto& [number, each] : all_) {
      if (!each.has_begun) continue;
      is_due = is_due || each.is_interrupted || each.next <= clock::now();
      next = std::min(next, each.next);
    }
    if (is_due) {
      try_due(lock);
    } else if (next == clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

/// Tries the requests whose time has come. Unlocks the mutex meanwhile.
void waiting_requests::try_due(std::unique_lock<std::mutex>& lock) {
  std::vector<std::uint64_t> due;
  for (const auto& [number, each] : all_) {
    if (each.has_begun && (each.is_interrupted || each.next <= clock::now())) due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    // Only this thread removes an entry.
    waiting& each = all_.at(number);
    const bool is_interrupted = each.is_interrupted;
    lock.unlock();
    const bool is_over = each.tries(is_interrupted);
    lock.lock();
    if (is_over) {
      all_.erase(number);
    } else {
      each.how_long.first = std::min(each.how_long.first * 2, each.how_long.longest);
      each.next = clock::now() + each.how_long.first;
    }
  }
}

} // namespace farcall::mount
