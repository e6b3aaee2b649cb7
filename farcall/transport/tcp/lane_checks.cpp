#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/lane_checks.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace farcall::tcp {
namespace {

/// Looks in one heartbeat timeout.
constexpr int looks_at_lanes = 4;

} // namespace

void delivery_watch::begin(const lane_position& own, time_point now) noexcept {
  since_ = now;
  sent_ = own.sent;
}

bool delivery_watch::is_due(const lane_position& own, time_point now) noexcept {
  const bool comes = std::exchange(received_, own.received) != own.received;
  if (own.sent == confirmed_) {
    awaits_ = false;
    return false;
  }
  // Data that the own system holds are the path monitor's.
  if (!awaits_ || comes || own.is_in_flight) {
    awaits_ = true;
    begin(own, now);
    return false;
  }
  return true;
}

bool delivery_watch::is_lost(const lane_message& reply, const lane_position& own,
                             std::chrono::milliseconds limit, time_point now) noexcept {
  if (!awaits_) return false;
  const bool goes_on = reply.received > confirmed_;
  confirmed_ = std::max(confirmed_, reply.received);
  if (goes_on || reply.is_full() || confirmed_ >= sent_) {
    begin(own, now);
    return false;
  }
  return now - since_ >= limit;
}

lane_checks::lane_checks(reactor& loop, std::chrono::milliseconds heartbeat_timeout, lister lanes,
                         teller tell)
    : loop_(&loop),
      interval_(std::max(heartbeat_timeout / looks_at_lanes, std::chrono::milliseconds(1))),
      // A forwarder may need a repetition for what an outage has kept back.
      limit_(std::min(2 * heartbeat_timeout,
                      heartbeat_timeout + interval_ + repetition_gap(heartbeat_timeout))),
      lanes_(std::move(lanes)), tell_(std::move(tell)) {}

void lane_checks::start() { look_later(); }

void lane_checks::look_later() {
  loop_->at(clock::now() + interval_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_over_.load()) return;
    self->look();
    self->look_later();
  });
}

void lane_checks::look() {
  const time_point now = clock::now();
  std::map<name, delivery_watch> watches;
  for (const checked_lane& l : lanes_()) {
    if (!l.lane->is_attached() || l.lane->has_ended()) continue;
    const auto known = watches_.find(name_of(l));
    delivery_watch& watch = watches[name_of(l)];
    if (known != watches_.end()) watch = known->second;
    if (watch.is_due(l.lane->position(), now))
      tell_(l.peer, {lane_question::how_far, l.is_opener ? lane_message::of_opener : 0U, l.serial});
  }
  watches_.swap(watches);
}

void lane_checks::take(node_id from, const lane_message& message) {
  loop_->post([weak = weak_from_this(), from, message] {
    const auto self = weak.lock();
    if (!self || self->is_over_.load()) return;
    if (message.what == lane_question::how_far) {
      self->reply_to(from, message);
    } else if (message.what == lane_question::so_far) {
      self->take_reply(from, message);
    } else if (const auto lane = self->find({from, message.serial, !message.is_of_opener()})) {
      lane->end_connection();
    }
  });
}

std::shared_ptr<stream_endpoint> lane_checks::find(const name& wanted) const {
  for (const checked_lane& l : lanes_()) {
    if (name_of(l) == wanted) return l.lane;
  }
  return nullptr;
}

void lane_checks::reply_to(node_id from, const lane_message& question) {
  const bool is_opener = !question.is_of_opener();
  lane_message m{lane_question::so_far, is_opener ? lane_message::of_opener : 0U, question.serial};
  const auto lane = find({from, question.serial, is_opener});
  if (lane) {
    lane->take_in();
    const lane_position own = lane->position();
    m.received = own.received;
    if (own.is_full) m.flags |= lane_message::full;
  }
  tell_(from, m);
}

void lane_checks::take_reply(node_id from, const lane_message& reply) {
  const name of{from, reply.serial, !reply.is_of_opener()};
  const auto known = watches_.find(of);
  const auto lane = find(of);
  if (known == watches_.end() || !lane || lane->has_ended()) return;
  const lane_position own = lane->position();
  if (!known->second.is_lost(reply, own, limit_, clock::now())) return;
  static auto& lines = *new log::limited_log("more lanes were given up");
  lines.warning("a lane with " + node_text(from) +
                " is given up: what was sent there was acknowledged on the way and did not arrive "
                "for " +
                std::to_string(limit_.count()) + " ms");
  lane->end_connection();
  tell_(from, {lane_question::given_up, of.is_opener ? lane_message::of_opener : 0U, of.serial});
}

} // namespace farcall::tcp
