#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// How stops of calls get to the nodes that run them, and what these do about them. Stops to a node
/// go through a lane with a worker of its own there: a stop is heard while handlers run, and
/// overtakes the calls that wait behind them.
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

void engine::take_stop(request_context& request, const void* /*context*/) noexcept {
  stop_message what{};
  if (request.bytes() != sizeof what) return;
  std::memcpy(&what, request.arguments(), sizeof what);
  const node_id from = request.source();
  stoppable_calls& calls = request.owner().stoppable();
  // What listens for the stop may wait.
  request.release();
  if (what.action == stop_action::stop) calls.stop(from, what.id);
  if (what.action == stop_action::forget) calls.forget(from, what.id);
}

requester& engine::lane_for_stops(node_id node) {
  // A node that takes no more calls is still told of those that it runs.
  if (const peer* const p = known(node);
      p != nullptr && p->stops.lane != nullptr && !p->stops.lane->is_lost()) {
    return *p->stops.lane;
  }
  auto& [lane, is_shared] = reach(node, clock::now()).stops;
  if (lane != nullptr && lane->is_lost()) {
    requester& lost = *std::exchange(lane, nullptr);
    if (!is_shared) retire(lost);
  }
  if (lane != nullptr) return *lane;
  try {
    // No reply comes through it, so its doorbell does not matter. Does not wait.
    lane = &open_on(node, acceptor_doorbell(), true, clock::now());
    is_shared = false;
  } catch (const no_lane_left&) {
    // Then they overtake nothing but what waits in other lanes.
    lane = share_lane(node);
    if (lane == nullptr) throw;
    is_shared = true;
  }
  return *lane;
}

bool engine::try_send_stop(node_id node, const stop_message& what) noexcept {
  if (has_failed(node)) return true;
  try {
    requester& l = lane_for_stops(node);
    l.guard().lock();
    // Nothing comes but replies to drain(), and the end of the connection, which in other lanes
    // their users find.
    if (!peers_.find(node)->stops.is_shared && l.pump() != 0) notify_if_armed(l.wakes());
    const bool is_over = l.failure() != nullptr;
    std::byte* const space = is_over ? nullptr : l.try_reserve_request(sizeof what);
    if (space != nullptr) {
      std::memcpy(space, &what, sizeof what);
      l.commit_request(space, sizeof what, stop_call_key, nullptr);
    }
    l.guard().unlock();
    // Through a new connection, where it was that.
    return space != nullptr || (is_over && !l.is_lost());
  } catch (const timeout&) {
    return false; // a lane is to come
  } catch (const std::exception& e) {
    log::warning(node_text(node) + " is not told of a stop: " + e.what());
    return true;
  }
}

void engine::tell_calls_of(node_id node, continuation_list& due) {
  auto begun = stoppable_->drop_calls_of(node);
  if (begun.empty()) return;
  due.push_back(*new telling(std::move(begun)));
}

} // namespace farcall::am
