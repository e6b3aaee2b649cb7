// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/stopping.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace farcall::am {
namespace {

class telling final : public continuation {
 public:
  explicit telling(std::vector<counted_ptr<stop_state>> calls) noexcept
      : calls_(std::move(calls)) {}
  void run() noexcept override {
    const std::unique_ptr<telling> self(this);
    for (const auto& call : calls_)
      call->request_stop();
  }

 private:
  std::vector<counted_ptr<stop_state>> calls_;
};

} // namespace

void stopping::take(request_context& request) noexcept {
  stop_message what{};
  if (request.bytes() != sizeof what) return;
  std::memcpy(&what, request.arguments(), sizeof what);
  const node_id from = request.source();
  stoppable_calls& calls = request.owner().stops().calls();
  // Release the record before the listeners run, because they may wait.
  request.release();
  if (what.action == stop_action::stop) calls.stop(from, what.id);
  if (what.action == stop_action::forget) calls.forget(from, what.id);
}

void stopping::tell_calls_of(const std::vector<node_id>& failed, continuation_list& due) {
  for (const node_id node : failed) {
    auto begun = calls_->drop_calls_of(node);
    if (!begun.empty()) due.push_back(*new telling(std::move(begun)));
  }
}

stopping::lane_to_node& stopping::reach(node_id node) {
  lane_to_node& way = lanes_[node];
  // Use an open lane even if the node refuses new calls, because it may still run calls that can be
  // stopped.
  if (way.lane != nullptr && !way.lane->is_lost()) return way;
  (void)owner_.peers().reach(node, clock::now());
  if (way.lane != nullptr) {
    requester& lost = *std::exchange(way.lane, nullptr);
    if (!way.is_shared) owner_.lanes().retire(lost);
  }
  try {
    way.lane = &owner_.lanes().open_for_stops(node);
    way.is_shared = false;
  } catch (const no_lane_left&) {
    // The node has no lane left for stops alone, so share a lane with callers. A stop in such a
    // lane waits behind the calls of this lane, and overtakes only calls in other lanes.
    way.lane = owner_.lanes().share(node);
    if (way.lane == nullptr) throw;
    way.is_shared = true;
  }
  return way;
}

bool stopping::try_send(node_id node, const stop_message& what) noexcept {
  if (owner_.has_failed(node)) return true;
  try {
    const lane_to_node& way = reach(node);
    requester& l = *way.lane;
    l.guard().lock();
    // Receive the replies to fences, and notice a lost connection. In a lane that is shared with
    // callers, the callers do both.
    if (!way.is_shared && l.pump() != 0) notify_if_armed(l.wakes());
    const bool is_over = l.failure() != nullptr;
    std::byte* const space = is_over ? nullptr : l.try_reserve_request(sizeof what);
    if (space != nullptr) {
      std::memcpy(space, &what, sizeof what);
      l.commit_request(space, sizeof what, stop_call_key, nullptr);
    }
    l.guard().unlock();
    // If the connection is lost, return false so that the next attempt opens a new lane.
    return space != nullptr || (is_over && !l.is_lost());
  } catch (const timeout&) {
    return false; // try again later: no lane is free yet, but one will be
  } catch (const std::exception& e) {
    log::warning(node_text(node) + " is not told of a stop: " + e.what());
    return true;
  }
}

} // namespace farcall::am
