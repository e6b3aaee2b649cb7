#pragma once

#include "address_tags.hpp"
#include "invoke.hpp"

namespace farcall::veo {

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are reported on standard error, with a
/// trace. In a thread that is inside farcall_veo_invoke, the call then returns, with the signal in
/// `fault_signal`; in any other thread, and if another process sent the signal, the process dies.
/// So does one that a kernel has forked: only the process that called this last has calls to end.
///
/// After a fault the locks that the kernel held stay held, malloc's and stdio's perhaps among them:
/// tell whoever waits, and leave by _exit. May be called again. Throws std::system_error.
void install_fault_handlers();

/// While it exists, faults of this thread end the call that this image is for. Guards nest.
class fault_guard {
 public:
  explicit fault_guard(register_image& image) noexcept : outer_(current_) {
    if (!prepared_) prepare_thread();
    current_ = &image;
  }
  ~fault_guard() { current_ = outer_; }
  fault_guard(const fault_guard&) = delete;
  fault_guard& operator=(const fault_guard&) = delete;

  static register_image* current() noexcept { return current_; }

 private:
  // A handler runs on a stack of its own, because the kernel's may be what has overflowed.
  static void prepare_thread() noexcept;

  // The handler reads it, and must not be the first to touch it: other models may allocate then.
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local register_image* current_ =
      nullptr;
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local bool prepared_ = false;

  register_image* outer_;
};

} // namespace farcall::veo
