#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/transport.hpp>

#include <span>
#include <thread>
#include <vector>

namespace farcall::am {

/// Moves bytes while the users of lanes sleep, for transports that have a descriptor to wait on
/// (transport::wait_fd): waits for the descriptors of all of them, and calls progress() of each
/// whose descriptor is readable.
class progress_thread {
 public:
  /// Starts the thread if one of `transports`, which outlive it, has a descriptor. Throws error.
  explicit progress_thread(std::span<transport* const> transports);
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;
  /// Waits until the thread has ended.
  ~progress_thread();

  [[nodiscard]] bool is_running() const noexcept { return thread_.joinable(); }

 private:
  void run() noexcept;

  std::vector<transport*> transports_; ///< those with a descriptor
  unique_fd stop_;
  std::thread thread_;
};

} // namespace farcall::am
