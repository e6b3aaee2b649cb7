// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/ucx/wake_up.hpp>

#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/timerfd.h>

namespace farcall::ucx {

wake_up::wake_up(int events)
    : events_(events), epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!epoll_ || !timer_) throw_system_error("waiting for UCX", errno);
  epoll_.close_on_fork();
  timer_.close_on_fork();
  epoll_event event{};
  event.data.fd = events_;
  event.events = EPOLLONESHOT;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, events_, &event) != 0) {
    throw_system_error("waiting for UCX", errno);
  }
  event.data.fd = timer_.get();
  // Edge-triggered, so that the descriptor is unreadable once the event was taken, although nothing
  // reads the timer.
  event.events = EPOLLIN | EPOLLET;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0) {
    throw_system_error("waiting for UCX", errno);
  }
}

void wake_up::on_event() noexcept {
  epoll_event event{};
  event.data.fd = events_;
  event.events = EPOLLIN | EPOLLONESHOT;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, events_, &event);
}

void wake_up::after(std::chrono::nanoseconds delay) noexcept {
  // Sequentially consistent, like the store in take(), so that no work is missed. Either the thread
  // that takes the timer's event sees the work that this thread has left for it, or this thread
  // sets the timer again.
  if (is_timer_set_.exchange(true, std::memory_order_seq_cst)) return;
  itimerspec when{};
  when.it_value.tv_nsec = static_cast<long>(delay.count());
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

wake_up::reasons wake_up::take() noexcept {
  std::array<epoll_event, 2> due{};
  reasons all;
  const int ready = ::epoll_wait(epoll_.get(), due.data(), static_cast<int>(due.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const int fd = due[static_cast<std::size_t>(i)].data.fd;
    (fd == events_ ? all.event : all.time) = true;
  }
  if (all.time) is_timer_set_.store(false, std::memory_order_seq_cst);
  return all;
}

} // namespace farcall::ucx
