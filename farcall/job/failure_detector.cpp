// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/failure_detector.hpp>

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall {

void failure_detector::start(std::function<void(int stop_signal)> watch) {
  stop_signal_ = unique_fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_signal_) throw_system_error("watching the nodes (descriptor limit?)", errno);
  stop_signal_.close_on_fork();
  thread_ =
      library_thread("farcall-service", [watch = std::move(watch),
                                         stop_signal = stop_signal_.get()] { watch(stop_signal); });
}

void failure_detector::stop() {
  if (!thread_.is_joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_signal_.get(), &one, sizeof one);
  thread_.join();
}

} // namespace farcall
