// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "address_tags.hpp"

#include <farcall/native/register_call.hpp>

#include <atomic>
#include <span>

#include <sys/types.h>

namespace farcall::veo {

using native::register_image;

/// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, which report the signal on
/// standard error with a stack trace. If the thread is inside native::invoke(), the call returns
/// with the signal in `fault_signal`. If a kernel has created the thread (thread_creator.hpp), the
/// thread stays in the handler, and the call of that kernel returns with the signal. The process
/// then dies two seconds later, unless it has ended before. If the thread's creator is unknown or
/// has ended, all running kernel calls return.
///
/// The process dies if any other thread gets the signal, or if another process has sent it. A child
/// process that a kernel has forked also dies, because a fault ends a kernel's call only in the
/// process that has called install_fault_handlers() last.
///
/// After a fault, locks that the kernel held remain locked, perhaps locks of malloc() and stdio.
/// The process should therefore only reply to waiting requests and end by _exit(). May be called
/// again. Throws std::system_error.
void install_fault_handlers();

/// Sets a function that gets the addresses of each stack trace after the trace is written. The
/// function must not allocate or lock, because the fault handler calls it.
void explain_traces_by(void (*explain)(std::span<void* const> places) noexcept) noexcept;

/// List entry of a thread that has called a kernel. Fault handlers in other threads read this
/// entry.
struct kernel_thread {
  std::atomic<register_image*> current{nullptr}; ///< register image of the current kernel call
  std::atomic<int> told{0}; ///< signal of a fault in a thread that the kernel created
  std::atomic<pid_t> id{0}; ///< thread id; 0 if the entry is free, -1 while a thread takes it
  kernel_thread* next = nullptr;
};

/// Lets a fault of this thread end the kernel call that uses this register image, as long as the
/// guard exists. Guards nest.
class fault_guard {
 public:
  explicit fault_guard(register_image& image) noexcept
      : thread_(this_thread_ != nullptr ? this_thread_ : join()),
        outer_(thread_->current.load(std::memory_order_relaxed)) {
    thread_->current.store(&image, std::memory_order_relaxed);
  }
  ~fault_guard() { thread_->current.store(outer_, std::memory_order_relaxed); }
  fault_guard(const fault_guard&) = delete;
  fault_guard& operator=(const fault_guard&) = delete;

  /// Returns the list entry of the calling thread; null if the thread has called no kernel.
  static kernel_thread* this_thread() noexcept { return this_thread_; }

 private:
  friend class kernel_thread_entry;

  // Adds the thread to the list, and gives it a signal stack for the fault handler, because the
  // kernel's stack may have overflowed.
  static kernel_thread* join() noexcept;

  // The initial-exec model is needed because the fault handler reads the variable; other models may
  // allocate memory at the first access.
  [[gnu::tls_model(
      "initial-exec")]] static constinit inline thread_local kernel_thread* this_thread_ = nullptr;

  kernel_thread* thread_;
  register_image* outer_;
};

} // namespace farcall::veo
