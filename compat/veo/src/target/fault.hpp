#pragma once

#include "address_tags.hpp"
#include "invoke.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include <sys/types.h>

namespace farcall::veo {

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are reported on standard error, with a
/// trace. In a thread that is inside farcall_veo_invoke, the call then returns, with the signal in
/// `fault_signal`. In a thread that a kernel has made, which inherits its maker's name, the
/// kernel's call returns so, and the thread stays in the handler; after two seconds the process
/// dies. Where no thread of that name has ever called a kernel, all calls of this moment return.
///
/// In any other thread, and if another process sent the signal, the process dies. So does one that
/// a kernel has forked: only the process that called this last has calls to end.
///
/// After a fault the locks that the kernel held stay held, malloc's and stdio's perhaps among them:
/// tell whoever waits, and leave by _exit. May be called again. Throws std::system_error.
void install_fault_handlers();

/// What is called with the places of each trace that has been written; in the handler, so it may
/// not allocate, nor lock.
void explain_traces_by(void (*explain)(std::span<void* const> places) noexcept) noexcept;

/// A thread that has called a kernel, as the handlers of other threads see it.
struct kernel_thread {
  std::atomic<register_image*> current{nullptr}; ///< of the call that it is in
  std::atomic<int> told{0};                      ///< signal that a thread of its kernel got
  std::atomic<pid_t> id{0};                      ///< 0: it has ended; -1: it begins
  std::array<std::atomic<std::uint64_t>, 2> name{};
  kernel_thread* next = nullptr;
};

/// While it exists, faults of this thread end the call that this image is for. Guards nest.
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

  /// Null where no kernel has been called.
  static kernel_thread* this_thread() noexcept { return this_thread_; }

 private:
  friend class kernel_thread_entry;

  // Makes the thread known, and gives it a stack for the handler, because the kernel's may be what
  // has overflowed.
  static kernel_thread* join() noexcept;

  // The handler reads it, and must not be the first to touch it: other models may allocate then.
  [[gnu::tls_model(
      "initial-exec")]] static constinit inline thread_local kernel_thread* this_thread_ = nullptr;

  kernel_thread* thread_;
  register_image* outer_;
};

} // namespace farcall::veo
