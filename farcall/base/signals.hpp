// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <csignal>
#include <initializer_list>

namespace farcall {

/// Blocks signals on the calling thread, which is a thread of the library, so that the program's
/// signal handlers do not run on it. The thread must call this function first. Signals that a
/// thread causes itself (faults) are not blocked.
inline void leave_signals_to_other_threads() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    ::sigdelset(&all, fault);
  }
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

} // namespace farcall
