// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <functional>

namespace farcall {

/// The thread with which a node watches the other nodes of its job. Only one thread may start and
/// stop it.
class failure_detector {
 public:
  failure_detector() = default;
  failure_detector(const failure_detector&) = delete;
  failure_detector& operator=(const failure_detector&) = delete;
  ~failure_detector() { stop(); }

  /// Starts the thread, which runs `watch`. `watch` gets a file descriptor, and must return once
  /// this descriptor becomes readable. Call this function once. Throws error, and std::system_error
  /// if no thread can be made.
  void start(std::function<void(int stop_signal)> watch);
  /// Stops the thread. Waits for its end, unless the thread itself is the caller.
  void stop();

 private:
  unique_fd stop_signal_;
  library_thread thread_;
};

} // namespace farcall
