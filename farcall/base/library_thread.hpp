// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/fault_report.hpp>
#include <farcall/base/fork.hpp>

#include <cstdint>
#include <thread>
#include <utility>

namespace farcall {

/// A thread that the library starts. The thread has a name, does not run the program's signal
/// handlers, and can report a fault even if its stack is full.
class library_thread {
 public:
  library_thread() noexcept = default;
  /// Starts a thread that runs `body`. `name` has at most 15 characters and is listed in the table
  /// of threads in docs/architecture.md. Throws std::system_error if the system allows no further
  /// thread.
  template <class F>
  library_thread(const char* name, F body)
      : made_in_(fork_generation()), thread_([name, run = std::move(body)]() mutable {
          prepare(name);
          const signal_stack for_faults;
          run();
        }) {}
  library_thread(library_thread&&) noexcept = default;
  library_thread& operator=(library_thread&& other) noexcept {
    join();
    made_in_ = other.made_in_;
    thread_ = std::move(other.thread_);
    return *this;
  }
  ~library_thread() { join(); }

  /// True from the start of the thread until join() or release().
  [[nodiscard]] bool is_joinable() const noexcept { return thread_.joinable(); }
  [[nodiscard]] bool is_current() const noexcept {
    return thread_.get_id() == std::this_thread::get_id();
  }

  /// Waits for the end of the thread, if there is one. On the thread itself, detaches the thread
  /// instead. This occurs if a handler calls exit(), because exit() then destroys a static job on a
  /// thread of that job. A child of a fork only drops the handle, because the parent's threads do
  /// not run in the child.
  void join() noexcept;
  /// Detaches the thread; in a child of a fork, only drops the handle.
  void release() noexcept;

 private:
  /// Sets up the calling thread, which the library has started.
  static void prepare(const char* name) noexcept;

  std::uint32_t made_in_ = 0; ///< value of fork_generation() at the start of the thread
  std::thread thread_;
};

} // namespace farcall
