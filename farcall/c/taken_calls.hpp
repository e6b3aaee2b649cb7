// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/c/reply.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/offload/job_state.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

namespace farcall::c {

/// A call that waits for fc_take(), or was taken, with its bytes. It becomes the reply of the call.
struct taken_call final : fc_reply {
  /// Keeps the message `m`, whose handler may return at once. Throws std::bad_alloc.
  taken_call(fc_function function, void* user, message& m);
  ~taken_call() override = default;

  /// Reuses the memory of calls that the calling thread has replied to.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  fc_taken told; ///< description for the program
  taken_call* next = nullptr;
  std::unique_ptr<std::byte[]> copy; ///< bytes that do not fit `near`, unless they are mapped
  alignas(16) std::byte near[256];   ///< short bytes; not initialised
};

/// The calls of this process that wait for fc_take(), in the order of their arrival. Any thread may
/// use it.
class taken_calls {
 public:
  static taken_calls& instance();

  void push(std::unique_ptr<taken_call> call);
  /// Takes the next call. Waits until the deadline; see fc_take(). Throws error, forked and
  /// interrupted.
  [[nodiscard]] fc_status take(time_point deadline, fc_taken& call);

  /// Makes `served` the job whose requests are served in take(). Null ends that.
  void serve_in_take(detail::job_state* served) noexcept {
    served_.store(served, std::memory_order_release);
  }
  [[nodiscard]] detail::job_state* served() const noexcept {
    return served_.load(std::memory_order_acquire);
  }
  /// Destroys the calls that wait; their callers get an error.
  void clear();

 private:
  [[nodiscard]] taken_call* pop() noexcept;
  [[nodiscard]] bool wait_for_call(time_point deadline);
  [[nodiscard]] bool is_empty() const noexcept {
    // Acquire, paired with the release stores under the mutex.
    return count_.load(std::memory_order_acquire) == 0;
  }

  std::mutex mutex_;
  std::condition_variable came_; ///< notified if this process serves no job in take()
  taken_call* first_ = nullptr;
  taken_call* last_ = nullptr;
  std::atomic<std::size_t> count_{0};
  std::atomic<detail::job_state*> served_{nullptr};
};

} // namespace farcall::c
