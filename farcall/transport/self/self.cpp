// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/transport/self/entry.hpp>
#include <farcall/transport/self/self.hpp>

#include <map>
#include <mutex>
#include <vector>

namespace farcall::self {
namespace {

/// Lowest bit of the id of a lane's end. The bit is set if the end is the opener's.
constexpr std::uint64_t opener_bit = 1;

struct counter {
  alignas(line_bytes) std::atomic<std::uint64_t> consumed{0};
};

struct self_lane {
  line_aligned_memory rings;
  counter requests;
  counter replies;
  std::uint32_t doorbell = 0;
  std::uint32_t worker = 0;
  bool own_worker = false;
  std::atomic<bool> closing{false};
  bool is_given_up = false; ///< true once the acceptor's end was closed; guarded by mutex_
};

class self_transport final : public transport {
 public:
  explicit self_transport(options o) : own_(o) {}

  std::string_view scheme() const noexcept override { return self::scheme; }

  transport_traits traits() const noexcept override {
    return {record_limit(own_.ring_bytes), true};
  }

  void describe(card& /*mine*/) const override {}

  reachability reachability_of(const card& peer) const override {
    if (peer.id != own_.self) return {false, 0, "another node"};
    return {true, 0, "the node itself"};
  }

  endpoint open(node_id /*peer*/, const lane_shape& shape) override {
    auto made = std::make_unique<self_lane>();
    const std::size_t bytes = std::size_t{own_.ring_bytes} * 2;
    made->rings = make_line_aligned(bytes);
    made->doorbell = shape.doorbell;
    made->worker = shape.worker;
    made->own_worker = shape.own_worker;

    self_lane& lane = *made;
    std::uint64_t id = 0;
    {
      const std::lock_guard guard(mutex_);
      id = next_id_;
      next_id_ += 2;
      lanes_.emplace(id, std::move(made));
      waiting_.push_back(id);
    }
    endpoint end = end_of(lane, id | opener_bit);
    attach(end.out, lane.rings.get(), own_.ring_bytes, lane.requests.consumed);
    attach(end.in, lane.rings.get() + own_.ring_bytes, own_.ring_bytes, lane.replies.consumed);
    notify_on_commit(end.out, own_.doorbells[shape.worker]);
    // Increment the counter of new lanes before the doorbell is checked. Both are sequentially
    // consistent, so that one of two things holds: a receiver that is about to sleep sees the new
    // count, or this thread sees that the receiver has armed its doorbell.
    arrivals_.fetch_add(1, std::memory_order_seq_cst);
    notify_of_lane(own_.doorbells[shape.worker], own_.doorbells.back(), shape.own_worker);
    return end;
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }

  std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return std::nullopt;
    const std::uint64_t id = waiting_.front();
    waiting_.erase(waiting_.begin());
    self_lane& lane = *lanes_.at(id);
    endpoint end = end_of(lane, id);
    attach(end.in, lane.rings.get(), own_.ring_bytes, lane.requests.consumed);
    attach(end.out, lane.rings.get() + own_.ring_bytes, own_.ring_bytes, lane.replies.consumed);
    notify_on_commit(end.out, own_.doorbells[lane.doorbell]);
    return end;
  }

  bool is_closed(const endpoint& accepted) const noexcept override {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(accepted.id);
    if (at == lanes_.end()) return true;
    // Acquire, paired with the release store in close(), so that all records are visible that the
    // opener has committed before it closed the lane.
    return at->second->closing.load(std::memory_order_acquire) &&
           !has_record(accepted.in, accepted.in.tail);
  }

  void close(const endpoint& end) noexcept override {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(end.id & ~opener_bit);
    if (at == lanes_.end()) return;
    // Free the lane's memory once both ends were closed. After the first close, the other end may
    // still be in use.
    self_lane& lane = *at->second;
    if ((end.id & opener_bit) == 0) {
      lane.is_given_up = true;
    } else {
      lane.closing.store(true, std::memory_order_release);
      notify_if_armed(own_.doorbells[end.worker]);
    }
    if (lane.is_given_up && lane.closing.load(std::memory_order_relaxed)) lanes_.erase(at);
  }

  void forget(node_id /*peer*/) noexcept override {}

 private:
  endpoint end_of(const self_lane& lane, std::uint64_t id) const noexcept {
    endpoint end;
    end.peer = own_.self;
    end.worker = lane.worker;
    end.own_worker = lane.own_worker;
    end.id = id;
    return end;
  }

  options own_;
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<self_lane>> lanes_;
  std::vector<std::uint64_t> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<self_transport>(o); }

} // namespace farcall::self
