#include <farcall/am/progress_thread.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/signals.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::am {

progress_thread::progress_thread(std::span<transport* const> transports) {
  std::copy_if(transports.begin(), transports.end(), std::back_inserter(transports_),
               [](const transport* t) { return t->wait_fd() >= 0; });
  if (transports_.empty()) return;
  stop_ = unique_fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw_system_error("making a descriptor that ends a thread", errno);
  thread_ = std::thread([this] {
    leave_signals_to_other_threads();
    const signal_stack for_faults;
    run();
  });
}

progress_thread::~progress_thread() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  // Adding one to a counter of zero cannot fail.
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void progress_thread::run() noexcept {
  std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}};
  for (const transport* t : transports_)
    waits.push_back({t->wait_fd(), POLLIN, 0});
  for (;;) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue; // a signal
    if (waits[0].revents != 0) return;
    for (std::size_t i = 0; i < transports_.size(); ++i) {
      if (waits[i + 1].revents != 0) transports_[i]->progress();
    }
  }
}

} // namespace farcall::am
