#pragma once

#include <farcall/base/language.hpp>

#include <csignal>
#include <initializer_list>

namespace farcall {

/// Keeps the user's signal handlers off a thread of the library's own: call first in the thread.
/// Signals that a thread causes itself (a fault) stay as they are.
inline void leave_signals_to_other_threads() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    ::sigdelset(&all, fault);
  }
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

} // namespace farcall
