#pragma once

#include <chrono>

namespace farcall {

/// How long a waiting thread spins before it sleeps. Waking a sleeping core costs a few
/// microseconds on bare metal and tens of them on virtual machines, a spinning one a tenth of one.
struct wait_policy {
  /// While every thread of the job that is awake can have a processor of its own.
  std::chrono::nanoseconds spin = std::chrono::milliseconds(2);
  /// When more threads are awake than there are processors: spinning then takes time from the
  /// thread that is waited for.
  std::chrono::nanoseconds crowded_spin = std::chrono::microseconds(5);
};

}  // namespace farcall
