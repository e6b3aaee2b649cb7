// SPDX-License-Identifier: Apache-2.0

// Peers send over a network of messages (UCX, MPI): headers of any kind, with or without the job's
// key, and bytes of lanes in any order, while users open, read, send and close, and the network
// sends at once, later, or never.

#include <farcall/base/error.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/message_transport.hpp>
#include <fuzz/support.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace fc = farcall;
using fc::fuzz::script;

namespace {

constexpr std::size_t nodes = 4;
constexpr std::uint32_t ring = fc::min_ring;

/// A network whose sends succeed, wait or fail, as the input selects.
class network final : public fc::message_link {
 public:
  network() : message_link(512) {}

  outcome send(fc::message_lane& from, const fc::lane_header& /*header*/,
               std::span<const std::byte> bytes) noexcept override {
    for (const std::byte b : bytes)
      sum_ += std::to_integer<unsigned>(b); // lets AddressSanitizer check the bytes
    if (next == outcome::under_way) sending_.push_back(&from);
    return next;
  }
  using message_link::post;
  bool post(fc::message_peer& /*to*/, fc::lane_message /*kind*/,
            std::span<const std::byte> /*header*/) noexcept override {
    return next != outcome::failed;
  }
  unsigned poll() noexcept override { return 0; }
  void arm() noexcept override {}
  void poll_again() noexcept override {}

  /// Completes the pending sends, as sent or failed. Call it with the lock.
  void end_sending(bool is_good) noexcept {
    for (fc::message_lane* const l : std::exchange(sending_, {}))
      l->was_sent(is_good);
  }

  outcome next = outcome::sent;

 private:
  std::vector<fc::message_lane*> sending_;
  unsigned sum_ = 0;
};

class node final : public fc::message_transport {
 public:
  explicit node(std::span<fc::doorbell> doorbells)
      : message_transport({"a network", 0, nodes, ring, doorbells}) {
    attach(link);
  }

  std::string_view scheme() const noexcept override { return "fuzz"; }
  void describe(fc::card& /*mine*/) const override {}
  fc::reachability reachability_of(const fc::card& /*peer*/) const override { return {}; }

  using message_transport::key;
  void take(fc::lane_message kind, std::span<const std::byte> header,
            std::span<const std::byte> bytes) {
    const std::lock_guard guard(link.mutex());
    take_lane_message(kind, header, bytes);
  }
  void go_on(bool is_good) {
    const std::lock_guard guard(link.mutex());
    link.end_sending(is_good);
    after_progress();
    sweep();
  }
  void lose(fc::node_id peer) {
    const std::lock_guard guard(link.mutex());
    if (fc::message_peer* const p = find_peer(peer)) {
      p->has_failed = true;
      lose_peer(*p);
    }
  }

  network link;

 private:
  struct known {
    bool is_admitted = false;
    bool is_used = false;
    fc::message_peer peer;
  };

  void take_card(const fc::card& peer) override { peers_.at(peer.id).is_admitted = true; }
  bool is_admitted(fc::node_id peer) const noexcept override {
    return peer < nodes && peers_[peer].is_admitted;
  }
  fc::message_peer* find_peer(fc::node_id peer) noexcept override {
    return peer < nodes && peers_[peer].is_used ? &peers_[peer].peer : nullptr;
  }
  fc::message_peer& use_peer(fc::node_id peer) override {
    known& k = peers_.at(peer);
    k.is_used = true;
    k.peer.node = peer;
    return k.peer;
  }
  fc::message_peer& connect_peer(fc::node_id peer) override {
    if (!is_admitted(peer)) throw fc::error("not in the job", peer);
    fc::message_peer& p = use_peer(peer);
    if (!is_up(p)) throw fc::node_failed("gone", peer);
    return p;
  }
  void for_each_used(const std::function<void(fc::message_peer&)>& f) override {
    for (known& k : peers_) {
      if (k.is_used) f(k.peer);
    }
  }
  bool is_up(const fc::message_peer& peer) const noexcept override {
    return !peer.has_failed && !peer.is_gone;
  }
  void cut_peer(fc::message_peer& /*peer*/) noexcept override {}
  bool is_forked() const noexcept override { return false; }

  std::array<known, nodes> peers_;
};

/// Sends a message like a peer of the job, except for the fields that the input changes.
void send_message(node& to, script& from) {
  const auto kind = static_cast<fc::lane_message>(from.byte() % 6 + 1);
  const std::uint8_t how = from.byte();
  const fc::node_id sender = how % 8;
  const fc::lane_number lane{from.byte() % 3U, from.byte() % 3U};
  if (how >= 0xf0) {
    to.take(kind, from.bytes(how % 64), from.bytes(from.byte()));
    return;
  }
  if (kind == fc::lane_message::open) {
    fc::open_header h{to.key(), sender, lane, from.byte(), how & 0x10U, ring};
    if ((how & 0x20) != 0) h.ring_bytes = from.word();
    if ((how & 0x40) != 0) h.lane.place = from.word();
    to.take(kind, std::as_bytes(std::span(&h, 1)), {});
    return;
  }
  fc::lane_header h{fc::check_of(to.key(), lane), fc::way_of(sender, (how & 0x10) != 0, lane),
                    from.byte() * 8U, from.byte() * 8U};
  if ((how & 0x20) != 0) h.position = from.word();
  if ((how & 0x40) != 0) h.read = from.word();
  to.take(kind, std::as_bytes(std::span(&h, 1)), from.bytes(from.byte() * 2U));
}

void read_records(fc::endpoint& end) {
  for (int i = 0; i < 16; ++i) {
    const fc::record_view record = fc::peek(end.in);
    if (!record || record.bytes == 0) return;
    if (record.data < end.in.base || record.data + record.bytes > end.in.base + end.in.size)
      std::abort();
    fc::release(end.in, record);
  }
}

void send_record(fc::endpoint& end, std::uint32_t bytes) {
  if (std::byte* const record = fc::try_reserve(end.out, bytes))
    fc::commit(end.out, record, bytes, fc::record_kind::request);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<fc::doorbell, 3> doorbells;
  node self(doorbells);
  std::vector<fc::endpoint> ends;
  script from(data, size);
  const auto some_end = [&]() -> fc::endpoint* {
    const std::uint8_t which = from.byte();
    return ends.empty() ? nullptr : &ends[which % ends.size()];
  };
  while (!from.is_over()) {
    switch (from.byte() % 12) {
    case 0: {
      fc::card peer;
      peer.id = from.byte() % nodes;
      self.admit(peer);
      break;
    }
    case 1:
      self.forget(from.byte() % nodes);
      break;
    case 2:
      self.lose(from.byte() % nodes);
      break;
    case 3:
      try {
        ends.push_back(self.open(from.byte() % nodes, {}));
      } catch (const fc::error&) {
      }
      break;
    case 4:
      while (const auto accepted = self.accept())
        ends.push_back(*accepted);
      break;
    case 5:
      if (fc::endpoint* const end = some_end()) {
        (void)self.is_closed(*end);
        self.close(*end);
        ends.erase(ends.begin() + std::distance(ends.data(), end));
      }
      break;
    case 6:
      if (fc::endpoint* const end = some_end()) {
        end->driver->progress();
        read_records(*end);
      }
      break;
    case 7:
      if (fc::endpoint* const end = some_end()) send_record(*end, 16 + from.byte() % 253U * 4U);
      break;
    case 8:
      self.link.next = static_cast<fc::message_link::outcome>(from.byte() % 4);
      break;
    case 9:
      self.go_on(from.byte() % 2 != 0);
      break;
    default:
      send_message(self, from);
    }
  }
  for (const fc::endpoint& end : ends)
    self.close(end);
  self.go_on(true);
  return 0;
}
