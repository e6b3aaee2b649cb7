// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/library_thread.hpp>
#include <farcall/base/signals.hpp>

#include <cstddef>
#include <new>
#include <utility>

#include <pthread.h>

namespace farcall {
namespace {

/// Drops the handle of a thread that belongs to the parent process. The child of a fork can neither
/// join nor detach such a thread.
void forget(std::thread& of_parent) noexcept {
  alignas(std::thread) std::byte never_destroyed[sizeof(std::thread)];
  new (never_destroyed) std::thread(std::move(of_parent));
}

} // namespace

void library_thread::prepare(const char* name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
  leave_signals_to_other_threads();
}

void library_thread::join() noexcept {
  if (!thread_.joinable()) return;
  if (made_in_ != fork_generation()) {
    forget(thread_);
  } else if (is_current()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void library_thread::release() noexcept {
  if (!thread_.joinable()) return;
  if (made_in_ != fork_generation()) {
    forget(thread_);
  } else {
    thread_.detach();
  }
}

} // namespace farcall
