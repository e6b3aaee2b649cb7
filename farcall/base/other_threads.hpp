#pragma once

#include <farcall/base/language.hpp>

namespace farcall {

/// The calling thread goes on when others are stopped: what it does has to be done before the
/// process ends, as sending what it is given, and it changes no memory of other nodes.
void go_on_when_others_stop() noexcept;

/// Stops all other threads of this process for good, by a signal whose handler calls
/// stop_if_asked(), and which the calling thread handles now. Waits until the threads have
/// stopped, for 50 ms at most: a thread that blocks the signal, or stays in the kernel, runs on.
/// Async-signal-safe. Called once.
void stop_other_threads(int signal) noexcept;

/// In the signal's handler: stops the thread if stop_other_threads() has sent the signal. Returns
/// true if the thread goes on all the same.
[[nodiscard]] bool stop_if_asked(int sent_by) noexcept;

} // namespace farcall
