#include <farcall/am/engine.hpp>
#include <farcall/am/stop_sender.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>

#include <chrono>
#include <exception>
#include <string>

namespace farcall::am {
namespace {

/// How long it waits for space, of which nobody notifies it.
constexpr std::chrono::milliseconds retry_interval{1};

} // namespace

void stop_sender::send(node_id to, const stop_message& what) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    if (is_stopping_) return;
    due_.push_back({to, what});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  } catch (const std::exception& e) {
    log::warning(node_text(to) + " is told of a stop only with the next: " + e.what());
  }
  something_.notify_one();
}

void stop_sender::run() noexcept {
  leave_signals_to_other_threads();
  // Others depend on this thread.
  const continuations_elsewhere moved(engine_->other_thread());
  std::vector<bool> full(engine_->nodes());
  std::unique_lock guard(mutex_);
  for (;;) {
    const auto has_news = [this] { return is_stopping_ || !due_.empty(); };
    if (waiting_.empty()) {
      is_busy_ = false;
      nothing_.notify_all();
      something_.wait(guard, has_news);
    } else {
      something_.wait_for(guard, retry_interval, has_news);
    }
    if (is_stopping_) return;
    is_busy_ = true;
    waiting_.splice(waiting_.end(), due_);
    guard.unlock();
    send_waiting(full);
    guard.lock();
  }
}

void stop_sender::send_waiting(std::vector<bool>& full) noexcept {
  full.assign(full.size(), false);
  waiting_.remove_if([&](const item& i) {
    if (!full[i.to]) full[i.to] = !engine_->try_send_stop(i.to, i.what);
    return !full[i.to];
  });
}

void stop_sender::drain(time_point deadline) noexcept {
  std::unique_lock guard(mutex_);
  // Where no thread could be made, nobody will send them.
  const auto is_done = [this] { return (due_.empty() && !is_busy_) || !thread_.joinable(); };
  if (deadline == no_deadline) {
    nothing_.wait(guard, is_done);
  } else {
    nothing_.wait_until(guard, deadline, is_done);
  }
}

void stop_sender::stop() noexcept {
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
  }
  something_.notify_one();
  if (thread_.joinable()) thread_.join();
}

} // namespace farcall::am
