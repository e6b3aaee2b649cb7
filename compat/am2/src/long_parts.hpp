#pragma once

#include "message_queue.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace farcall::am2 {

/// Longs of a peer that come in parts (payload_place::parts): which of their bytes have come, in
/// whatever order, and the messages whose bytes are still on the way. Any thread.
class long_parts {
 public:
  /// So many bytes of that transfer have come; `status` other than 0: they were refused. The
  /// message that was waiting for these, the last ones, or null.
  [[nodiscard]] std::unique_ptr<kept_message> add(std::uint64_t transfer, std::uint64_t bytes,
                                                  int status) {
    const std::lock_guard guard(mutex_);
    transfer_state& t = transfers_[transfer];
    t.bytes += bytes;
    if (status != 0) t.status = status;
    return t.last != nullptr && t.bytes >= t.last->m.bytes ? std::move(t.last) : nullptr;
  }

  /// The message itself has come: whether all its bytes have, too. Keeps it until then.
  [[nodiscard]] bool has_all(int node, const message& m) {
    const std::lock_guard guard(mutex_);
    transfer_state& t = transfers_[m.transfer];
    if (t.bytes >= m.bytes) return true;
    t.last = std::make_unique<kept_message>();
    t.last->keep(node, m);
    return false;
  }

  /// Of one that has come whole: why parts were refused, or 0. It is forgotten.
  [[nodiscard]] int end(std::uint64_t transfer) {
    const std::lock_guard guard(mutex_);
    const auto node = transfers_.extract(transfer);
    return node.empty() ? 0 : node.mapped().status;
  }

  /// A message that waits for its bytes, which it shall have no more; null when there is none.
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
