// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/stop_sender.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <chrono>
#include <exception>
#include <string>

namespace farcall::am {
namespace {

/// Pause between two attempts to send to a node whose lane is full, because the node does not
/// notify senders when there is space.
constexpr std::chrono::milliseconds retry_interval{1};

} // namespace

stop_sender::stop_sender(engine& e)
    : engine_(&e), thread_("farcall-service", [this](auto& lock) { return send_due(lock); }) {}

void stop_sender::send(node_id to, const stop_message& what) noexcept {
  try {
    (void)thread_.submit([&] { due_.push_back({to, what}); });
  } catch (const std::exception& e) {
    log::warning(node_text(to) + " is told of a stop only with the next: " + e.what());
  }
}

time_point stop_sender::send_due(std::unique_lock<std::mutex>& lock) noexcept {
  if (thread_.is_stopping()) return no_deadline;
  waiting_.splice(waiting_.end(), due_);
  if (waiting_.empty()) return no_deadline;
  lock.unlock();
  send_waiting();
  lock.lock();
  return waiting_.empty() ? no_deadline : clock::now() + retry_interval;
}

void stop_sender::send_waiting() noexcept {
  // Continuations run on the completion thread instead of this one, because other threads depend on
  // this one.
  const continuations_elsewhere moved(engine_->other_thread());
  full_.assign(engine_->peers().nodes(), false);
  waiting_.remove_if([this](const item& i) {
    auto is_full = full_[place_of(i.to)];
    if (!is_full) is_full = !engine_->stops().try_send(i.to, i.what);
    return !is_full;
  });
}

} // namespace farcall::am
