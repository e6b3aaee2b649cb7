// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/message_transport.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <sys/random.h>

namespace farcall {
namespace {

/// Time between the loss of a lane that this node has opened and the report of this loss to the
/// lane's user. In this time, a notice may arrive that the peer's node has ended, which gives a
/// better reason than the loss of the lane.
constexpr std::chrono::milliseconds loss_notice_time{500};

/// Lowest bit of the id of a lane's end. The bit is set if the end is the opener's.
constexpr std::uint64_t opener_bit = 1;

bool is_ring_size(std::uint32_t bytes) noexcept {
  return is_power_of_two(bytes) && bytes >= min_ring && bytes <= max_ring;
}

std::uint64_t make_key() {
  std::uint64_t key = 0;
  if (::getrandom(&key, sizeof key, 0) != static_cast<ssize_t>(sizeof key)) {
    throw_system_error("getting a random number", errno);
  }
  return key;
}

template <class F>
void for_each_lane(message_peer& p, F f) {
  for (const auto& o : p.opened) {
    if (o.open) f(*o.open);
  }
  for (const auto& l : p.accepted) {
    if (l) f(*l);
  }
}

} // namespace

message_transport::message_transport(message_site site)
    : site_(std::move(site)), key_(make_key()),
      refusals_("more messages over " + site_.network + " were refused") {
  if (site_.nodes > max_nodes) {
    throw error(site_.network + " is for jobs of a million nodes at most");
  }
}

// ---- functions that users of lanes call --------------------------------------------------------

void message_transport::admit(const card& peer) {
  if (peer.id == site_.self) return;
  take_card(peer);
  const std::lock_guard guard(link_->mutex());
  if (find_peer(peer.id) == nullptr) return;
  // Let accept() return the lanes that the peer has opened before it was admitted.
  std::vector<endpoint> now;
  std::erase_if(early_, [&](const endpoint& e) {
    if (e.peer == peer.id) now.push_back(e);
    return e.peer == peer.id;
  });
  if (now.empty()) return;
  to_connect_.push_back(peer.id);
  connect_openers();
  for (const endpoint& e : now)
    offer(e);
}

endpoint message_transport::open(node_id peer, const lane_shape& shape) {
  if (is_forked()) throw forked();
  const std::lock_guard guard(link_->mutex());
  message_peer& p = connect_peer(peer);
  if (p.free_places.empty()) {
    if (p.opened.size() == max_places) {
      throw no_lane_left(node_text(peer) + " has no lane left of " + std::to_string(max_places) +
                             "; close some",
                         peer);
    }
    p.free_places.reserve(p.opened.size() + 1);
    p.opened.emplace_back();
    p.free_places.push_back(static_cast<std::uint32_t>(p.opened.size() - 1));
  }
  const std::uint32_t place = p.free_places.back();
  const lane_number number{place, p.opened[place].uses};
  auto made = std::make_unique<message_lane>(*link_, p, site_.self, number, site_.ring_bytes,
                                             site_.doorbells[shape.doorbell], lane_role::opener);
  const open_header h{p.key,           site_.self, number, shape.worker, shape.own_worker ? 1U : 0U,
                      site_.ring_bytes};
  const endpoint end = publish(*made, peer, shape.worker, shape.own_worker, opener_bit);
  if (!link_->post(p, lane_message::open, h)) {
    unpublish(end.id);
    throw error(node_text(peer) + " cannot be told of a lane by " + site_.network, peer);
  }
  p.free_places.pop_back();
  p.opened[place].open = std::move(made);
  return end;
}

std::optional<endpoint> message_transport::accept() {
  const std::lock_guard guard(table_mutex_);
  if (waiting_.empty()) return std::nullopt;
  const endpoint next = waiting_.front();
  waiting_.pop_front();
  return next;
}

bool message_transport::is_closed(const endpoint& accepted) const noexcept {
  const std::lock_guard guard(table_mutex_);
  const auto at = lanes_.find(accepted.id);
  return at == lanes_.end() ||
         (at->second->has_ended() && !has_record(accepted.in, accepted.in.tail));
}

void message_transport::close(const endpoint& end) noexcept {
  if (is_forked()) return;
  const std::lock_guard guard(link_->mutex());
  message_lane* const l = unpublish(end.id);
  if (l == nullptr) return;
  message_peer& p = l->to();
  const std::uint32_t place = l->number().place;
  if (l->which_end() == lane_role::opener && is_up(p)) {
    l->finish();
    return;
  }
  if (l->which_end() == lane_role::opener) {
    free_place(p, place);
    return;
  }
  l->cut();
  const lane_header h{check_of(p.key, l->number()), way_of(site_.self, false, l->number()), 0, 0};
  link_->post(p, lane_message::closed, h);
  retire(std::move(p.accepted[place]));
}

void message_transport::note_failure(node_id peer) noexcept {
  if (is_forked() || !is_admitted(peer)) return;
  const std::lock_guard guard(link_->mutex());
  mark_gone(peer);
  if (message_peer* const p = find_peer(peer)) cut_peer(*p);
}

void message_transport::forget(node_id peer) noexcept {
  if (is_forked()) return;
  const std::lock_guard guard(link_->mutex());
  {
    const std::lock_guard table_guard(table_mutex_);
    std::erase_if(early_, [&](const endpoint& e) {
      if (e.peer == peer) waiting_.push_back(e);
      return e.peer == peer;
    });
    std::erase_if(waiting_, [&](const endpoint& e) {
      if (e.peer != peer) return false;
      if (const auto at = lanes_.find(e.id); at != lanes_.end()) {
        retire(std::move(find_peer(peer)->accepted[at->second->number().place]));
        lanes_.erase(at);
      }
      return true;
    });
  }
  message_peer* const p = find_peer(peer);
  if (p == nullptr) {
    // Make an object for the peer only to mark the peer as gone. Messages that the peer has sent
    // before may still arrive, and are dropped because of the mark.
    if (is_admitted(peer)) mark_gone(peer);
    return;
  }
  p->is_gone = true;
  for_each_lane(*p, [](message_lane& l) { l.cut(); });
  free_closed(*p);
  cut_peer(*p);
}

// ---- the table of lanes -------------------------------------------------------------------------

void message_transport::mark_gone(node_id peer) noexcept {
  try {
    use_peer(peer).is_gone = true;
  } catch (const std::bad_alloc&) {
    log::error("no memory to note that a node is gone");
  }
}

endpoint message_transport::publish(message_lane& l, node_id peer, std::uint32_t worker,
                                    bool own_worker, std::uint64_t bit) {
  endpoint end;
  l.fill(end);
  end.peer = peer;
  end.worker = worker;
  end.own_worker = own_worker;
  const std::lock_guard guard(table_mutex_);
  end.id = next_id_ | bit;
  lanes_[end.id] = &l;
  next_id_ += 2;
  return end;
}

/// Removes a lane from the table of users' lanes. Returns null if the lane was closed before.
message_lane* message_transport::unpublish(std::uint64_t id) noexcept {
  const std::lock_guard guard(table_mutex_);
  const auto at = lanes_.find(id);
  if (at == lanes_.end()) return nullptr;
  message_lane* const l = at->second;
  lanes_.erase(at);
  return l;
}

bool message_transport::is_published(const message_lane& l) const noexcept {
  const std::lock_guard guard(table_mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& e) { return e.second == &l; });
}

/// Destroys a lane that has no user any more, or keeps it while the network still reads from its
/// ring.
void message_transport::retire(std::unique_ptr<message_lane> l) noexcept {
  if (!l) return;
  l->cut();
  link_->serve_never(*l);
  std::erase_if(lost_, [&](const auto& e) { return e.second == l.get(); });
  if (!l->is_under_way()) return;
  try {
    retired_.push_back(std::move(l));
  } catch (const std::bad_alloc&) {
    // Leak the lane: destroying it would free memory that the network still reads.
    l.release(); // NOLINT(bugprone-unused-return-value): a leak is better
  }
}

void message_transport::free_place(message_peer& p, std::uint32_t place) noexcept {
  retire(std::move(p.opened[place].open));
  ++p.opened[place].uses;
  p.free_places.push_back(place); // reserved in open()
}

/// Frees the places of the lanes that this node has opened and whose users have closed them.
void message_transport::free_closed(message_peer& p) noexcept {
  for (std::uint32_t i = 0; i < p.opened.size(); ++i) {
    if (p.opened[i].open && !is_published(*p.opened[i].open)) free_place(p, i);
  }
}

bool message_transport::has_unsent() noexcept {
  bool any = std::any_of(retired_.begin(), retired_.end(),
                         [](const auto& l) { return l->is_under_way(); });
  for_each_used([&](message_peer& p) {
    if (!is_up(p)) return;
    for_each_lane(p, [&](message_lane& l) { any = !l.is_drained() || any; });
  });
  return any;
}

// ---- messages that arrive -----------------------------------------------------------------------

void message_transport::take_lane_message(lane_message kind, std::span<const std::byte> header,
                                          std::span<const std::byte> bytes) noexcept {
  lane_header h;
  switch (kind) {
  case lane_message::bytes:
    if (message_lane* const l = lane_for(header, h)) l->take_bytes(h, bytes);
    break;
  case lane_message::credit:
    if (message_lane* const l = lane_for(header, h)) l->take_credit(h);
    break;
  case lane_message::close:
    if (message_lane* const l = lane_for(header, h)) l->take_close(h);
    break;
  case lane_message::closed:
    take_closed(header);
    break;
  case lane_message::open:
    take_open(header);
    break;
  }
}

bool message_transport::is_from_peer(std::uint64_t key, std::uint32_t from) noexcept {
  if (key == key_ && from < max_nodes && place_of(from) < site_.nodes && from != site_.self)
      [[likely]] {
    const message_peer* const p = find_peer(from);
    return p == nullptr || !p->is_gone;
  }
  refusals_.warning("a message over " + site_.network + " that is not of this job is dropped");
  return false;
}

message_lane* message_transport::lane_for(std::span<const std::byte> header,
                                          lane_header& h) noexcept {
  if (!read_header(header, h)) return nullptr;
  message_peer* const p = find_peer(sender_in(h.lane));
  if (p == nullptr || p->is_gone) return nullptr;
  const std::uint32_t place = place_in(h.lane);
  message_lane* l = nullptr;
  if (is_opener_in(h.lane)) {
    l = place < p->accepted.size() ? p->accepted[place].get() : nullptr;
  } else {
    l = place < p->opened.size() ? p->opened[place].open.get() : nullptr;
  }
  return l != nullptr && h.check == check_of(key_, l->number()) ? l : nullptr;
}

void message_transport::take_open(std::span<const std::byte> header) noexcept {
  open_header h;
  if (!read_header(header, h) || !is_from_peer(h.key, h.from)) return;
  try {
    if (!is_ring_size(h.ring_bytes) || h.lane.place >= max_places) {
      refusals_.warning(node_text(h.from) + " opens a lane of impossible size; refused");
      return;
    }
    message_peer& p = use_peer(h.from);
    const std::uint32_t place = h.lane.place;
    if (place >= p.accepted.size()) p.accepted.resize(place + 1);
    if (p.accepted[place]) {
      refusals_.warning(node_text(h.from) + " opens a lane that is open; refused");
      return;
    }
    doorbell& wakes = site_.doorbells[doorbell_of(h.worker)];
    auto made = std::make_unique<message_lane>(*link_, p, site_.self, h.lane, h.ring_bytes, wakes,
                                               lane_role::acceptor);
    const endpoint end = publish(*made, h.from, h.worker, h.own_worker != 0, 0);
    p.accepted[place] = std::move(made);
    if (!is_admitted(h.from)) {
      // Keep the lane until the opener is admitted here. An opener can be early, because it may get
      // our card before we get its card.
      early_.push_back(end);
      return;
    }
    if (!is_up(p)) to_connect_.push_back(h.from);
    offer(end);
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more lanes could not be opened");
    lines.error("a lane that a peer opens over " + site_.network + ": " + e.what());
  }
}

/// Queues a new lane for accept(), and notifies the threads that may accept it.
void message_transport::offer(const endpoint& end) {
  {
    const std::lock_guard guard(table_mutex_);
    waiting_.push_back(end);
  }
  // Increment the counter of new lanes before the doorbell is checked. Both are sequentially
  // consistent, so that one of two things holds: a receiver that is about to sleep sees the new
  // count, or this thread sees that the receiver has armed its doorbell.
  arrivals_.fetch_add(1, std::memory_order_seq_cst);
  notify_of_lane(site_.doorbells[doorbell_of(end.worker)], site_.doorbells.back(), end.own_worker);
}

std::size_t message_transport::doorbell_of(std::uint32_t worker) const noexcept {
  return worker < site_.doorbells.size() ? worker : 0;
}

/// Handles the message `closed`, by which the peer gives back a lane that this node had opened.
void message_transport::take_closed(std::span<const std::byte> header) noexcept {
  lane_header h;
  message_lane* const l = lane_for(header, h);
  if (l == nullptr || l->which_end() != lane_role::opener) return;
  if (is_published(*l)) {
    lose(*l); // the lane's user on this node has not closed it yet
  } else {
    free_place(l->to(), l->number().place);
  }
}

void message_transport::lose(message_lane& l) noexcept {
  if (!l.lose()) return;
  try {
    lost_.emplace_back(clock::now() + loss_notice_time, &l);
    link_->poll_again();
  } catch (const std::bad_alloc&) {
    l.declare_lost();
  }
}

void message_transport::after_progress() noexcept {
  if (!to_connect_.empty()) [[unlikely]]
    connect_openers();
  if (link_->has_due()) {
    for (message_lane* const l : link_->take_due())
      l->serve();
  }
}

void message_transport::connect_openers() noexcept {
  for (const node_id n : std::exchange(to_connect_, {})) {
    message_peer* const p = find_peer(n);
    if (p == nullptr || p->is_gone) continue;
    try {
      (void)connect_peer(n);
      for_each_lane(*p, [](message_lane& l) { l.serve(); });
    } catch (const std::exception& e) {
      refusals_.warning(std::string("a lane that a peer has opened leads nowhere: ") + e.what());
      for_each_lane(*p, [this](message_lane& l) { lose(l); });
    }
  }
}

void message_transport::lose_peer(message_peer& peer) noexcept {
  for_each_lane(peer, [this](message_lane& l) { lose(l); });
  free_closed(peer);
  cut_peer(peer);
}

void message_transport::sweep() noexcept {
  for_each_used([this](message_peer& p) {
    if (is_up(p)) for_each_lane(p, [](message_lane& l) { l.serve(); });
  });
  std::erase_if(retired_, [](const auto& l) { return !l->is_under_way(); });
  if (lost_.empty()) return;
  const time_point now = clock::now();
  std::erase_if(lost_, [&](const auto& e) {
    if (e.first > now) return false;
    e.second->declare_lost();
    return true;
  });
  if (!lost_.empty()) link_->poll_again();
}

} // namespace farcall
