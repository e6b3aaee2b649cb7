// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>

namespace farcall {

/// Durations that control how a waiting thread spins before it sleeps. Waking a sleeping core takes
/// a few microseconds on bare metal and tens of microseconds on virtual machines; a spinning core
/// reacts in a tenth of a microsecond.
struct wait_policy {
  /// Time for which a thread polls, yields included, before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::milliseconds(2);
  /// Time after which a spinning thread yields between its polls, because on an oversubscribed
  /// machine the awaited thread may have no processor.
  std::chrono::nanoseconds yield_after = std::chrono::microseconds(20);
};

} // namespace farcall
