#pragma once

#include <farcall/base/clock.hpp>

namespace farcall {

/// How long a waiting thread spins before it sleeps. Waking a sleeping core costs a few
/// microseconds on bare metal and tens of them on virtual machines, a spinning one a tenth of one.
struct wait_policy {
  /// How long a thread spins in all, before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::milliseconds(2);
  /// After so long, a spinning thread yields between its polls: if it is oversubscribed, the thread
  /// that it waits for may be one that has no processor.
  std::chrono::nanoseconds yield_after = std::chrono::microseconds(20);
};

} // namespace farcall
