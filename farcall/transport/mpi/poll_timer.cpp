// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/poll_timer.hpp>

#include <cerrno>
#include <cstdint>

#include <sys/timerfd.h>
#include <unistd.h>

namespace farcall::mpi {

poll_timer::poll_timer() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!timer_) throw_system_error("making a timer for MPI", errno);
  timer_.close_on_fork();
}

void poll_timer::set(std::chrono::nanoseconds delay) noexcept {
  itimerspec when{};
  when.it_value.tv_nsec = static_cast<long>(delay.count());
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void poll_timer::take() noexcept {
  std::uint64_t times = 0;
  [[maybe_unused]] const auto bytes = ::read(timer_.get(), &times, sizeof times);
  is_set_.store(false, std::memory_order_seq_cst);
}

} // namespace farcall::mpi
