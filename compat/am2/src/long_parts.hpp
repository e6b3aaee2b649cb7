// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message_queue.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace farcall::am2 {

/// Long messages that a peer sends in parts (payload_place::parts). Such a message consists of
/// several messages with parts of the payload, and of a final message without payload, which says
/// which handler to run. They may arrive in any order. For each long message, this class counts the
/// bytes of the parts that have arrived, and keeps the final message while parts are missing. Can
/// be used by any thread.
class long_parts {
 public:
  /// Notes that a part with `bytes` bytes has arrived. A non-zero `status` says that the part was
  /// refused. If this was the last missing part, returns the final message that waited for it;
  /// otherwise null.
  [[nodiscard]] std::unique_ptr<kept_message> add(std::uint64_t transfer, std::uint64_t bytes,
                                                  int status) {
    const std::lock_guard guard(mutex_);
    transfer_state& t = transfers_[transfer];
    t.bytes += bytes;
    if (status != 0) t.status = status;
    return t.last != nullptr && t.bytes >= t.last->m.bytes ? std::move(t.last) : nullptr;
  }

  /// Call this function when the final message `m` of a long message has arrived. Returns true if
  /// all parts of the long message have arrived, too. Otherwise keeps a copy of `m`.
  [[nodiscard]] bool has_all(int node, const message& m) {
    const std::lock_guard guard(mutex_);
    transfer_state& t = transfers_[m.transfer];
    if (t.bytes >= m.bytes) return true;
    t.last = std::make_unique<kept_message>();
    t.last->keep(node, m);
    return false;
  }

  /// Removes a transfer whose parts have all arrived. Returns the status with which a part was
  /// refused; 0 if no part was refused.
  [[nodiscard]] int end(std::uint64_t transfer) {
    const std::lock_guard guard(mutex_);
    const auto node = transfers_.extract(transfer);
    return node.empty() ? 0 : node.mapped().status;
  }

  /// Takes a final message that still waits for parts, so that it can be refused. Returns null if
  /// there is none.
  [[nodiscard]] std::unique_ptr<kept_message> give_up_one() {
    const std::lock_guard guard(mutex_);
    for (auto& [number, t] : transfers_)
      if (t.last != nullptr) return std::move(t.last);
    return nullptr;
  }

 private:
  struct transfer_state {
    std::uint64_t bytes = 0;
    int status = 0;
    std::unique_ptr<kept_message> last;
  };

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, transfer_state> transfers_;
};

} // namespace farcall::am2
