#include "waiting_locks.hpp"

#include "replies.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::mount {
namespace {

constexpr std::chrono::milliseconds first_pause{1};
constexpr std::chrono::milliseconds longest_pause{100};

/// The one object, for the function that libfuse calls, which gets only a number.
waiting_locks* the_locks = nullptr;

} // namespace

waiting_locks::waiting_locks(target_process& target) : link_(target) {
  the_locks = this;
  std::thread([this] { run(); }).detach();
}

void waiting_locks::add(fuse_req_t request, attempt tries) {
  std::uint64_t number = 0;
  {
    const std::lock_guard guard(mutex_);
    number = ++last_;
    all_.emplace(number,
                 waiting{request, std::move(tries), clock::now() + first_pause, first_pause});
  }
  // libfuse calls the function at once if the request is interrupted already.
  ::fuse_req_interrupt_func(request, interrupt, reinterpret_cast<void*>(number));
  const std::lock_guard guard(mutex_);
  all_.at(number).has_begun = true;
  changed_.notify_one();
}

void waiting_locks::interrupt(fuse_req_t /*request*/, void* number) {
  const std::lock_guard guard(the_locks->mutex_);
  // The request may have been replied to in the meantime.
  const auto at = the_locks->all_.find(reinterpret_cast<std::uint64_t>(number));
  if (at == the_locks->all_.end()) return;
  at->second.is_interrupted = true;
  the_locks->changed_.notify_one();
}

void waiting_locks::run() noexcept {
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

/// Tries the locks whose time has come. Unlocks the mutex meanwhile.
void waiting_locks::try_due(std::unique_lock<std::mutex>& lock) {
  std::vector<std::uint64_t> due;
  for (const auto& [number, each] : all_) {
    if (each.has_begun && (each.is_interrupted || each.next <= clock::now())) due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    // Only this thread removes an entry.
    waiting& each = all_.at(number);
    std::int64_t result = -EINTR;
    if (!each.is_interrupted) {
      lock.unlock();
      result = each.tries();
      lock.lock();
    }
    if (result == -EAGAIN || result == -EACCES) {
      each.pause = std::min<clock::duration>(each.pause * 2, longest_pause);
      each.next = clock::now() + each.pause;
      continue;
    }
    const fuse_req_t request = each.request;
    all_.erase(number);
    lock.unlock();
    reply_result(request, result);
    lock.lock();
  }
}

} // namespace farcall::mount
