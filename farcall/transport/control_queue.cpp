// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/wipe.hpp>
#include <farcall/transport/control_queue.hpp>

#include <utility>

namespace farcall {
namespace {

/// Limit of the bytes that were sent in one direction and not received yet; about as many as fit
/// into a socket of the system.
constexpr std::size_t max_waiting_bytes = std::size_t{256} << 10;
/// Number of bytes that each message counts in addition to its body, so that the number of empty
/// messages is limited, too.
constexpr std::size_t message_overhead = sizeof(control_message);

void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& guard,
                time_point deadline) {
  if (deadline == no_deadline) {
    changed.wait(guard);
  } else {
    changed.wait_until(guard, deadline);
  }
}

} // namespace

control_queue::~control_queue() {
  for (side& s : sides_) {
    for (control_message& m : s.arrived)
      wipe(std::span(m.body));
  }
}

bool control_queue::is_ready_now(end e) const noexcept {
  return !at(e).arrived.empty() || at(e).is_closed || at(other(e)).is_closed;
}

bool control_queue::has_space(const side& to, std::size_t bytes) const noexcept {
  return to.arrived.empty() || to.bytes + bytes + message_overhead <= max_waiting_bytes;
}

bool control_queue::send(end from, control kind, std::span<const std::byte> body,
                         time_point deadline) {
  std::unique_lock guard(mutex_);
  side& to = at(other(from));
  for (;;) {
    if (at(from).is_closed || to.is_closed) return false;
    if (has_space(to, body.size())) break;
    if (clock::now() >= deadline) return false;
    wait_until(changed_, guard, deadline);
  }
  const bool was_ready = is_ready_now(other(from));
  control_message m;
  m.kind = kind;
  m.body.assign(body.begin(), body.end());
  to.arrived.push_back(std::move(m));
  to.bytes += body.size() + message_overhead;
  changed_.notify_all();
  if (!was_ready && to.on_arrival) to.on_arrival();
  return true;
}

std::optional<control_message> control_queue::receive(end e, time_point deadline) {
  std::unique_lock guard(mutex_);
  while (!is_ready_now(e)) {
    if (clock::now() >= deadline) return std::nullopt;
    wait_until(changed_, guard, deadline);
  }
  side& mine = at(e);
  if (mine.is_closed || mine.arrived.empty()) return std::nullopt;
  std::optional<control_message> m = std::move(mine.arrived.front());
  mine.arrived.pop_front();
  mine.bytes -= m->body.size() + message_overhead;
  changed_.notify_all();
  return m;
}

bool control_queue::is_ready(end e) const {
  const std::lock_guard guard(mutex_);
  return is_ready_now(e);
}

bool control_queue::is_disconnected() const {
  const std::lock_guard guard(mutex_);
  return sides_[0].is_closed || sides_[1].is_closed;
}

bool control_queue::has_ended(end e) const {
  const std::lock_guard guard(mutex_);
  return is_ready_now(e) && (at(e).is_closed || at(e).arrived.empty());
}

void control_queue::on_arrival(end e, std::function<void()> call) {
  const std::lock_guard guard(mutex_);
  at(e).on_arrival = std::move(call);
  if (at(e).on_arrival && is_ready_now(e)) at(e).on_arrival();
}

void control_queue::close(end which) noexcept {
  // Declare the callback before the lock, so that it is destroyed after the lock is released: its
  // destructor may call a function of this queue, which takes the lock.
  std::function<void()> gone;
  const std::lock_guard guard(mutex_);
  side& mine = at(which);
  if (std::exchange(mine.is_closed, true)) return;
  gone = std::exchange(mine.on_arrival, {});
  changed_.notify_all();
  side& peer = at(other(which));
  if (peer.arrived.empty() && peer.on_arrival) peer.on_arrival();
}

} // namespace farcall
