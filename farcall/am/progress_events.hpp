// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/transport/transport.hpp>

#include <memory>
#include <span>
#include <vector>

namespace farcall::am {

/// Makes progress for transports that have a wait descriptor (transport::wait_fd) while the users
/// of their lanes sleep. The event loop of the process calls progress() of a transport when its
/// descriptor is readable.
class progress_events {
 public:
  /// Starts the event loop if one of `transports` has a wait descriptor. The transports outlive
  /// this object. Throws error.
  explicit progress_events(std::span<transport* const> transports);
  progress_events(const progress_events&) = delete;
  progress_events& operator=(const progress_events&) = delete;
  /// Stops the calls of progress(). Waits until a running one has returned.
  ~progress_events();

  [[nodiscard]] bool has_loop() const noexcept { return loop_ != nullptr; }

 private:
  /// The public constructor delegates to this one. The destructor therefore runs even if the public
  /// constructor throws.
  progress_events() noexcept = default;

  /// Event loop of the process; null if no transport has a wait descriptor.
  std::shared_ptr<event_loop> loop_;
  std::vector<int> watched_;
};

} // namespace farcall::am
