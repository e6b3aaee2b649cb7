// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/spin_wait.hpp>

namespace farcall::am {

/// Loop of waiting threads and of workers. It polls and serves, spins while there is nothing to do,
/// and finally sleeps. The parameter `Scope` defines these steps by the following functions:
///
/// * `state poll(spin_wait&)` polls the lanes once and serves their requests. If it returns `over`,
///   the loop ends.
/// * `bool may_end(const spin_wait&)` returns true if the thread need not wait any longer. Called
///   whenever poll() has found something, and before a sleep.
/// * `bool has_work()` makes thorough checks before a sleep, and returns true if poll() may find
///   something, so that the thread must not sleep.
/// * `void sleep()` sleeps on the doorbells of the conditions for which the thread waits.
template <class Scope>
void run_wait_loop(Scope& scope, spin_wait& spinning) {
  for (;;) {
    switch (scope.poll(spinning)) {
    case wait_condition::state::over:
      return;
    case wait_condition::state::advanced:
      spinning.renew();
      if (scope.may_end(spinning)) return;
      continue;
    case wait_condition::state::pending:
      break;
    }
    if (!spinning.is_over()) continue;
    if (scope.may_end(spinning)) return;
    if (!scope.has_work()) scope.sleep();
    spinning.renew();
  }
}

} // namespace farcall::am
