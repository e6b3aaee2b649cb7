// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/forked_process.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace farcall::tool {

/// A second process on the target's core that is woken by a futex in shared memory, and replies. It
/// sleeps at once after each reply. Measures wake-ups without the library.
///
/// The constructor forks, so create it before any thread or job is started.
class futex_peer {
 public:
  /// Waiting of the calling process. With `asleep`, it sleeps at once, and the peer wakes it.
  enum class caller : std::uint8_t { asleep, spinning };

  explicit futex_peer(core_pair cores);
  ~futex_peer();
  futex_peer(const futex_peer&) = delete;
  futex_peer& operator=(const futex_peer&) = delete;
  futex_peer(futex_peer&&) = delete;
  futex_peer& operator=(futex_peer&&) = delete;

  /// Makes that many round trips. The caller is bound to the host's core. Throws failed_run if the
  /// peer has gone.
  void round_trips(std::size_t count, caller how = caller::asleep);

 private:
  struct board;

  board* shared_ = nullptr;
  std::uint32_t sent_ = 0;
  std::unique_ptr<forked_process> process_;
};

} // namespace farcall::tool
