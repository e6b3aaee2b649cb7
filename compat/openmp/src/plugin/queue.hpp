// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.hpp"
#include "region.hpp"

#include <farcall/async/message.hpp>
#include <farcall/farcall.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>

namespace farcall::openmp {

/// Operations that a task of the program has begun, in their order. The task goes on while a region
/// runs, and operations that it begins meanwhile wait in the queue until the region has ended. One
/// thread at a time uses a queue.
class queue {
 public:
  /// Copies to the device `to`. The bytes must stay until the operation is done. Throws
  /// node_failed.
  void put(device& to, std::uint64_t address, std::span<const std::byte> from);
  /// Copies from the device `from`. Throws node_failed.
  void get(device& from, std::uint64_t address, std::span<std::byte> to);
  /// Copies between two devices, without the host. Throws node_failed.
  void copy(device& from, std::uint64_t from_address, device& to, std::uint64_t to_address,
            std::size_t bytes);
  /// Starts a region on a device. Throws node_failed.
  void run(device& on, const region& what, std::span<const std::uint64_t> arguments);

  /// Continues with the operations in the queue if the region before them has ended. Does not wait
  /// for regions. Returns true if all operations are done. Throws node_failed, and remote_error.
  bool poll();
  /// Waits until all operations are done. Throws what poll() throws.
  void wait();

  /// Returns the region that runs, or has run last; null if there is none.
  [[nodiscard]] const region* last_region() const noexcept { return last_; }

 private:
  [[nodiscard]] bool is_idle() const noexcept { return !running_ && waiting_.empty(); }
  void finish_running();

  std::optional<future<message_reply>> running_;
  const region* last_ = nullptr;
  std::deque<std::function<void()>> waiting_;
};

} // namespace farcall::openmp
