// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/passed_files.hpp>

#include <utility>

namespace farcall::files {

passed_files::ticket::ticket(passed_files& from) : from_(from) {
  const std::lock_guard guard(from_.mutex_);
  // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): with the lock
  number_ = ++from_.last_;
  from_.expected_.try_emplace(number_);
}

passed_files::ticket::~ticket() {
  const std::lock_guard guard(from_.mutex_);
  from_.expected_.erase(number_);
}

unique_fd passed_files::ticket::wait(time_point deadline) {
  std::unique_lock lock(from_.mutex_);
  unique_fd& file = from_.expected_.at(number_);
  (void)from_.came_.wait_until(lock, deadline, [&] { return static_cast<bool>(file); });
  return std::move(file);
}

void passed_files::put(std::uint64_t number, unique_fd file) noexcept {
  {
    const std::lock_guard guard(mutex_);
    const auto at = expected_.find(number);
    if (at == expected_.end()) return;
    at->second = std::move(file);
  }
  came_.notify_all();
}

} // namespace farcall::files
