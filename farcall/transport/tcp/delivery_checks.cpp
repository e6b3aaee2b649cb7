// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/delivery_checks.hpp>
#include <farcall/transport/tcp/path_monitor.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace farcall::tcp {

void delivery_watch::begin(const stream_position& own, time_point since, time_point now) noexcept {
  awaits_ = true;
  sent_ = own.sent;
  replied_ = now;
  end_ = since + timeout_ - timeout_ / looks;
  last_end_ = since + 3 * timeout_;
}

bool delivery_watch::is_due(const stream_position& own, time_point now) noexcept {
  const time_point before = std::exchange(looked_, now);
  const bool comes = std::exchange(received_, own.received) != own.received;
  if (own.sent == confirmed_) {
    awaits_ = false;
    return false;
  }
  // Begin a new period if bytes arrive from the peer, or if sent bytes are not acknowledged yet.
  // The path monitor judges bytes that are not acknowledged; this class judges acknowledged bytes
  // only.
  if (comes || own.is_in_flight) {
    begin(own, now, now);
    return false;
  }
  if (!awaits_) {
    begin(own, before == time_point{} ? now : before, now);
    return false;
  }
  if (now < end_ && now - asked_ < timeout_ / 8) return false;
  asked_ = now;
  return true;
}

bool delivery_watch::is_lost(const delivery_message& reply, const stream_position& own,
                             time_point now) noexcept {
  if (!awaits_) return false;
  const bool goes_on = reply.received > confirmed_;
  confirmed_ = std::max(confirmed_, reply.received);
  if (goes_on || reply.is_full() || confirmed_ >= sent_) {
    begin(own, now, now);
    return false;
  }
  if (now - std::exchange(replied_, now) > timeout_ / 4)
    end_ = std::min(std::max(end_, now + timeout_ + timeout_ / 4), last_end_);
  return now >= end_;
}

void connection_list::append_to(std::vector<checked_connection>& all) {
  std::erase_if(ends_, [&](const entry& e) {
    checked_connection found = e.name;
    found.end = e.end.lock();
    if (!found.end) return true;
    all.push_back(std::move(found));
    return false;
  });
}

delivery_checks::delivery_checks(event_loop& loop, std::chrono::milliseconds heartbeat_timeout,
                                 lister connections, teller tell)
    : loop_(&loop), timeout_(std::max(heartbeat_timeout, min_path_timeout)),
      connections_(std::move(connections)), tell_(std::move(tell)) {}

delivery_message delivery_checks::message(delivery_question what, const name& about) noexcept {
  delivery_message m{what};
  if (about.is_opener) m.flags |= delivery_message::of_opener;
  if (about.kind == connection_kind::bulk) m.flags |= delivery_message::of_copies;
  m.serial = about.serial;
  return m;
}

void delivery_checks::start() { poll_later(); }

void delivery_checks::poll_later() {
  loop_->at(clock::now() + timeout_ / delivery_watch::looks, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_over_.load()) return;
    self->look();
    self->poll_later();
  });
}

void delivery_checks::look() {
  const time_point now = clock::now();
  std::map<name, delivery_watch> watches;
  for (const checked_connection& c : connections_()) {
    if (!c.end->is_open()) continue;
    const name which = name_of(c);
    const auto known = watches_.find(which);
    delivery_watch& watch =
        watches.emplace(which, known == watches_.end() ? delivery_watch(timeout_) : known->second)
            .first->second;
    if (watch.is_due(c.end->position(), now))
      tell_(c.peer, message(delivery_question::how_far, which));
  }
  watches_.swap(watches);
}

void delivery_checks::take(node_id from, const delivery_message& message) {
  loop_->post([weak = weak_from_this(), from, message] {
    const auto self = weak.lock();
    if (!self || self->is_over_.load()) return;
    if (message.what == delivery_question::how_far) {
      self->reply_to(from, message);
    } else if (message.what == delivery_question::so_far) {
      self->take_reply(from, message);
    } else if (const auto end = self->find(name_of(from, message))) {
      end->end_connection();
    }
  });
}

std::shared_ptr<checked_end> delivery_checks::find(const name& wanted) const {
  for (const checked_connection& c : connections_()) {
    if (name_of(c) == wanted) return c.end;
  }
  return nullptr;
}

void delivery_checks::reply_to(node_id from, const delivery_message& question) {
  const name which = name_of(from, question);
  delivery_message m = message(delivery_question::so_far, which);
  if (const auto end = find(which)) {
    end->take_in();
    const stream_position own = end->position();
    m.received = own.received;
    if (own.is_full) m.flags |= delivery_message::full;
  }
  tell_(from, m);
}

void delivery_checks::take_reply(node_id from, const delivery_message& reply) {
  const name which = name_of(from, reply);
  const auto known = watches_.find(which);
  const auto end = find(which);
  if (known == watches_.end() || !end || !end->is_open()) return;
  if (!known->second.is_lost(reply, end->position(), clock::now())) return;
  static auto& lines = *new log::limited_log("more connections were given up");
  lines.warning(
      std::string(which.kind == connection_kind::bulk ? "a connection for copies" : "a lane") +
      " with " + node_text(from) +
      " is given up: what was sent there was acknowledged on the way and did not arrive "
      "within " +
      std::to_string(timeout_.count()) + " ms");
  end->end_connection();
  tell_(from, message(delivery_question::given_up, which));
}

} // namespace farcall::tcp
