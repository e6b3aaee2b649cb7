// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall {

/// Exempts the calling thread from stop_other_threads(), so that it runs on while the other threads
/// are stopped. Meant for a thread whose work, for instance sending, must be done before the
/// process ends. Such a thread must not change memory of other nodes.
void go_on_when_others_stop() noexcept;

/// Stops all other threads of this process permanently. Sends them the signal that the calling
/// thread is handling now, and whose handler calls stop_if_asked(). Waits until the threads have
/// stopped, for 50 ms at most. A thread that blocks the signal runs on. A thread that stays in the
/// kernel for this time stops only when it leaves the kernel. Async-signal-safe. Called once.
void stop_other_threads(int signal) noexcept;

/// Called in the signal's handler. Stops the thread if stop_other_threads() has sent the signal.
/// Returns true if the thread was asked to stop, but runs on.
[[nodiscard]] bool stop_if_asked(int sent_by) noexcept;

} // namespace farcall
