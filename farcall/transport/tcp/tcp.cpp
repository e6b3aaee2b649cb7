// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/bulk.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>
#include <farcall/transport/tcp/delivery_checks.hpp>
#include <farcall/transport/tcp/dial_requests.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/tcp/lane.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream_forwarder.hpp>
#include <farcall/transport/tcp/tcp.hpp>
#include <farcall/transport/tcp/tls.hpp>
#include <farcall/transport/tcp/unproved_arrivals.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/socket.h>

namespace farcall::tcp {
namespace {

constexpr unsigned tcp_cost = 100;

/// When the transport ends, it still sends committed bytes for at most this time.
constexpr std::chrono::seconds last_sending{1};

/// Lowest bit of a lane's id, which is set at the opener's end.
constexpr std::uint64_t opener_bit = 1;

class tcp_transport_impl final : public tcp_transport {
 public:
  tcp_transport_impl(event_loop& loop, options o)
      : loop_(&loop), own_(std::move(o)),
        security_{std::make_shared<const job_credentials>(std::move(own_.credentials)), nullptr},
        peers_(own_.nodes), paths_(std::make_shared<path_monitor>(loop, own_.heartbeat_timeout)),
        ends_(std::make_shared<connection_ends>(loop, own_.tell_of_end)),
        rma_engine_(
            own_.nodes, [this](node_id peer, std::uint64_t serial) { connect_bulk(peer, serial); },
            [this](node_id peer, std::uint64_t serial) { end_bulk(peer, serial); }) {
    security_.identity = security_.credentials->identity();
    if (own_.listener) {
      own_.listener->on_connection([this](unique_fd s) { take_connection(std::move(s)); });
    }
    if (own_.tell_of_delivery) checks_->start();
  }

  tcp_transport_impl(const tcp_transport_impl&) = delete;
  tcp_transport_impl& operator=(const tcp_transport_impl&) = delete;

  ~tcp_transport_impl() override {
    if (own_.listener) own_.listener->on_connection({});
    sweep_->stop();
    paths_->stop();
    checks_->stop();
    ends_->stop();
    const time_point deadline = clock::now() + last_sending;
    while (has_unsent() && clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::map<std::uint64_t, entry> gone;
    {
      const std::lock_guard guard(mutex_);
      gone.swap(lanes_);
      is_ending_->store(true);
    }
    for (auto& [id, e] : gone)
      e.lane->cut();
    peers_.for_each([this](node_id peer, const peer_entry&) { rma_engine_.forget(peer); });
    // Wait for functions on the loop's thread that may not have seen that this object is ending.
    loop_->drain();
  }

  std::string_view scheme() const noexcept override { return tcp::scheme; }

  transport_traits traits() const noexcept override {
    return {record_limit(own_.ring_bytes), false};
  }

  void describe(card& mine) const override {
    mine.transports[std::string(scheme())] = own_addresses().encode();
    mine.machine = own_.machine;
  }

  reachability reachability_of(const card& peer) const override {
    if (peer.id == own_.self) return {false, 0, "the node itself"};
    const char* by_host = "";
    bool is_unix = false;
    try {
      const node_addresses own = own_addresses();
      const node_addresses its = node_addresses::of(peer);
      if (its.addresses.empty() && own.addresses.empty()) {
        return {false, 0, "neither of the two can be dialled: a server has started neither"};
      }
      std::vector<socket_address> leading = its.seen_from(own.network);
      if (leading.empty()) leading = own.seen_from(its.network);
      is_unix = !leading.empty() && leading.front().family() == AF_UNIX;
      if (leading.empty()) {
        const bool host_leads = own_.self != host_id && peer.id != host_id &&
                                !its.addresses.empty() && !own.addresses.empty();
        if (!host_leads) {
          return {false, 0, "the server's address does not lead there from the other's network"};
        }
        by_host = ", by way of the host: the two cannot reach each other";
      }
    } catch (const error& e) {
      return {false, 0, e.what()};
    }
    return {true, tcp_cost,
            std::string(is_unix ? "Unix sockets" : "TCP") +
                (security_.credentials->is_encrypted ? ", encrypted" : ", unencrypted") + by_host};
  }

  std::string server_of(const card& peer) const override { return node_addresses::of(peer).server; }

  void admit(const card& peer) override {
    if (peer.id == own_.self || place_of(peer.id) >= peers_.capacity()) return;
    auto made = peers_.make(peer.id);
    peer_entry& p = made->value;
    const node_addresses its = node_addresses::of(peer);
    p.where = its.to_dial_from(own_.network);
    p.is_forwarded = p.where.empty() && own_addresses().seen_from(its.network).empty();
    rma_engine_.admit(peer.id, peer.windows);
    peers_.publish(std::move(made));
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    if (!admitted(peer)) throw error(node_text(peer) + " cannot be reached by TCP", peer);
    const auto lane = std::make_shared<stream_endpoint>(
        *loop_, sweep_, own_.ring_bytes, own_.doorbells[shape.doorbell], lane_role::opener);
    endpoint end;
    lane->fill(end);
    end.peer = peer;
    end.worker = shape.worker;
    end.own_worker = shape.own_worker;
    {
      const std::lock_guard guard(mutex_);
      end.id = next_id_ | opener_bit;
      next_id_ += 2;
      lanes_[end.id] = {lane, peer, end.id, false};
    }
    lane->on_loss([ends = ends_, peer, id = end.id](std::function<void()> refused) {
      ends->give_up(peer, connection_kind::lane, id, std::move(refused));
    });
    connect_request o;
    o.serial = end.id;
    o.worker = shape.worker;
    o.own_worker = shape.own_worker ? 1 : 0;
    o.ring_bytes = own_.ring_bytes;
    if (const peer_entry& p = *peers_.find(peer); p.where.empty() || p.is_forwarded) {
      ask_for_lane(peer, end.id, o, lane);
      return end;
    }
    o.kind = connection_kind::lane;
    dial_peer(peer, o,
              [this, lane, peer, id = end.id](
                  std::unique_ptr<stream> s, const connect_request& first, const std::string& why) {
                if (!s && forward_from_now_on(peer, why)) {
                  ask_for_lane(peer, id, first, lane);
                } else {
                  lane->attach_or_give_up(std::move(s), bytes_of(first), why);
                }
              });
    return end;
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }

  std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return std::nullopt;
    const endpoint c = waiting_.front();
    waiting_.pop_front();
    return c;
  }

  bool is_closed(const endpoint& accepted) const noexcept override {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(accepted.id);
    if (at == lanes_.end()) return true;
    const stream_endpoint& lane = *at->second.lane;
    return lane.has_ended() && (lane.has_refused() || !has_record(accepted.in, accepted.in.tail));
  }

  void close(const endpoint& end) noexcept override {
    std::shared_ptr<stream_endpoint> lane;
    {
      const std::lock_guard guard(mutex_);
      const auto at = lanes_.find(end.id);
      if (at == lanes_.end() || at->second.is_closed) return;
      lane = at->second.lane;
      if ((end.id & opener_bit) != 0 && !is_gone(end.peer)) {
        at->second.is_closed = true;
      } else {
        lanes_.erase(at);
      }
    }
    if ((end.id & opener_bit) == 0 || is_gone(end.peer)) return lane->cut();
    lane->finish();
    sweep_->note();
  }

  void note_failure(node_id peer) noexcept override { rma_engine_.note_failure(peer); }

  void forget(node_id peer) noexcept override {
    peer_entry* const p = peers_.find(peer);
    if (p == nullptr) return;
    ends_->forget(peer);
    rma_engine_.forget(peer);
    std::vector<std::shared_ptr<stream_endpoint>> cut;
    {
      const std::lock_guard guard(mutex_);
      p->is_gone = true;
      std::erase_if(waiting_, [&](const endpoint& c) {
        if (c.peer != peer) return false;
        lanes_.erase(c.id);
        return true;
      });
      for (auto& [id, e] : lanes_) {
        if (e.peer == peer) cut.push_back(e.lane);
      }
      std::erase_if(lanes_,
                    [&](const auto& l) { return l.second.peer == peer && l.second.is_closed; });
    }
    for (const auto& lane : cut)
      lane->abort();
  }

  void progress() noexcept override {
    for (const auto& lane : all_lanes())
      lane->progress();
  }

  void arm() noexcept override {
    for (const auto& lane : all_lanes())
      lane->arm();
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

  void take_message(node_id from, std::span<const std::byte> bytes,
                    std::vector<unique_fd> files) override {
    for (unique_fd& socket : files)
      take_connection(std::move(socket));
    if (bytes.empty()) return;
    if (const auto of_connection = decode_delivery_message(bytes)) {
      if (own_.tell_of_delivery) checks_->take(from, *of_connection);
      return;
    }
    take_request(from, decode_dial_request(bytes));
  }

  void take_connection(unique_fd socket) override {
    unproved_->add(peer_text(socket.get()), [&](std::function<void()> decided) {
      return receive_connect_request(
          *loop_, std::move(socket), security_, own_.self, clock::now() + own_.heartbeat_timeout,
          [this, ending = is_ending_, unproved = unproved_, decided = std::move(decided)](
              std::unique_ptr<stream> s, const connect_request& o, const std::string& why) {
            decided();
            if (ending->load()) return;
            if (!s) {
              why.empty() ? refusals_.info("a connection ended before it sent a request")
                          : refuse(why);
              return;
            }
            admit_connection(std::move(s), o);
          });
    });
  }

  void take_request(node_id peer, const dial_request& request) override {
    if (request.word != connection_word::dial) {
      loop_->post([this, ending = is_ending_, peer, request] {
        if (ending->load()) return;
        request.word == connection_word::not_dialled ? take_failure(peer, request)
                                                     : ends_->take(peer, request);
      });
    } else if (request.forward_to != host_id) {
      forward(peer, request);
    } else {
      dial_for(peer, request);
    }
  }

 private:
  struct peer_entry {
    std::vector<socket_address> where; ///< constant; empty if the peer cannot be dialled
    /// True if the host forwards connections with the peer, because neither can dial the other.
    std::atomic<bool> is_forwarded{false};
    std::atomic<bool> is_gone{false};
    request_places requests; ///< connections that this node is making at the peer's request
  };
  struct entry {
    std::shared_ptr<stream_endpoint> lane;
    node_id peer = no_node;
    std::uint64_t serial = 0; ///< the opener's id
    bool is_closed = false;   ///< true once its user has closed it; some bytes may be unsent
  };
  static std::span<const std::byte> bytes_of(const connect_request& o) {
    return std::as_bytes(std::span(&o, 1));
  }

  [[nodiscard]] bool admitted(node_id peer) const noexcept { return peers_.find(peer) != nullptr; }
  /// For an admitted node.
  [[nodiscard]] bool is_gone(node_id peer) const noexcept { return peers_.find(peer)->is_gone; }

  [[nodiscard]] node_addresses own_addresses() const {
    return {own_.network, own_.server, own_.addresses};
  }

  // ---- peers that cannot dial this node ---------------------------------------------------------

  void dial_for(node_id peer, const dial_request& request) {
    if (!admitted(peer) || peers_.find(peer)->where.empty()) return;
    connect_request o;
    o.serial = request.serial;
    o.kind = request.kind;
    const bool is_lane = request.kind == connection_kind::lane_back;
    if (is_lane && !is_ring_size(request.ring_bytes)) {
      refusals_.error(node_text(peer) + " asks for a lane of impossible size");
      return;
    }
    if (!is_lane && request.kind != connection_kind::bulk_back) return;
    const auto place = place_for_request(peer);
    if (place == nullptr) {
      give_back(peer, request);
      return;
    }
    dial_peer(peer, o,
              [this, place, peer, request, is_lane](
                  std::unique_ptr<stream> s, const connect_request& first, const std::string& why) {
                if (!s) {
                  refusals_.warning(node_text(peer) +
                                    " asked for a connection, which could not be made: " + why);
                  give_back(peer, request);
                  return;
                }
                if (is_lane) {
                  connect_request asked = first;
                  asked.worker = request.worker;
                  asked.own_worker = request.own_worker;
                  asked.ring_bytes = request.ring_bytes;
                  add_accepted(peer, std::move(s), bytes_of(first), asked);
                } else {
                  // First send the connect request, for which an empty send buffer has space. Then
                  // serve the peer's requests for copies.
                  add_bulk_server(peer, request.serial, std::move(s), bytes_of(first));
                }
              });
  }

  /// Returns a failed request to `asker`, which then need not wait for a timeout.
  void give_back(node_id asker, dial_request request) {
    request.word = connection_word::not_dialled;
    own_.ask_to_dial(asker, request);
  }

  // ---- peers that cannot be dialled -------------------------------------------------------------

  /// Asks the peer, or the host, to make a connection between this node and `peer`. Returns the
  /// error text to report if no connection is made in time.
  std::string ask(node_id peer, dial_request request) {
    if (peers_.find(peer)->is_forwarded) {
      request.forward_to = peer;
      own_.ask_to_dial(host_id, request);
      return not_forwarded(peer);
    }
    own_.ask_to_dial(peer, request);
    return not_called_back(peer);
  }

  void ask_for_lane(node_id peer, std::uint64_t id, const connect_request& o,
                    const std::shared_ptr<stream_endpoint>& lane) {
    const std::string failure = ask(
        peer, {id, connection_kind::lane_back, o.worker, o.own_worker, o.ring_bytes, host_id, {}});
    // Limit the wait, because the asked node, or a server in between, may fail silently.
    loop_->at(clock::now() + 2 * own_.heartbeat_timeout, [weak = std::weak_ptr(lane), failure] {
      if (const auto late = weak.lock()) late->give_up_if_late(failure);
    });
  }

  void ask_for_bulk(node_id peer, std::uint64_t serial) {
    const std::string failure =
        ask(peer, {serial, connection_kind::bulk_back, 0, 0, 0, host_id, {}});
    loop_->at(clock::now() + 2 * own_.heartbeat_timeout,
              [this, ending = is_ending_, peer, failure, asked = rma_engine_.asked(peer)] {
                if (!ending->load()) rma_engine_.fail_late(peer, asked, failure);
              });
  }

  /// Handles a request of this node that has failed, and that `asked` returns: the peer, which
  /// cannot dial this node, or the host, which cannot connect the two. Called on the loop's thread.
  void take_failure(node_id asked, const dial_request& request) {
    const bool was_forwarded = asked == host_id && request.forward_to != host_id;
    const node_id peer = was_forwarded ? request.forward_to : asked;
    if (!admitted(peer)) return;
    const std::string why =
        was_forwarded ? "the host cannot connect us with " + node_text(peer) + "; its log says why"
                      : tried_in_vain(peer);
    const bool goes_on = !was_forwarded && forward_from_now_on(peer, why);
    if (request.kind == connection_kind::bulk_back) {
      goes_on ? ask_for_bulk(peer, request.serial) : rma_engine_.fail(peer, why);
      return;
    }
    const auto lane = awaited_lane(peer, request.serial);
    // Do nothing if the lane has got a connection in spite of the failure.
    if (!lane || lane->is_attached()) return;
    if (goes_on) {
      connect_request o;
      o.worker = request.worker;
      o.own_worker = request.own_worker;
      o.ring_bytes = own_.ring_bytes;
      ask_for_lane(peer, request.serial, o, lane);
    } else {
      lane->give_up_if_late(why);
    }
  }

  /// Returns the lane with this id that this node has opened to `peer`; null if it was removed.
  [[nodiscard]] std::shared_ptr<stream_endpoint> awaited_lane(node_id peer,
                                                              std::uint64_t id) const {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(id);
    const bool is_ours = at != lanes_.end() && at->second.peer == peer && (id & opener_bit) != 0;
    return is_ours ? at->second.lane : nullptr;
  }

  /// Makes the host forward connections with `peer`, after a failed dial. Returns false if the host
  /// cannot forward, for instance because this node has no address.
  bool forward_from_now_on(node_id peer, const std::string& why) {
    if (own_.self == host_id || peer == host_id || own_.addresses.empty() || is_gone(peer))
      return false;
    if (!peers_.find(peer)->is_forwarded.exchange(true)) {
      log::warning(node_text(peer) + " is reached by way of the host from now on: " + why);
    }
    return true;
  }

  /// The host's part of forwarding: dials node `from`, and the node that `from` wants to reach,
  /// each on behalf of the other. Then joins the two connections.
  void forward(node_id from, const dial_request& request) {
    const node_id to = request.forward_to;
    const bool is_lane = request.kind == connection_kind::lane_back;
    const bool is_possible =
        own_.self == host_id && from != host_id && from != to && can_be_dialled(from) &&
        can_be_dialled(to) &&
        (is_lane ? is_ring_size(request.ring_bytes) : request.kind == connection_kind::bulk_back);
    if (!is_possible) {
      refusals_.warning(node_text(from) + " asks for a connection that cannot be: with " +
                        node_text(to));
      if (own_.self == host_id && from != host_id) give_back(from, request);
      return;
    }
    const connect_request there = acceptors_request(request, from);
    const connect_request back = openers_request(request, to);
    const auto place = place_for_request(from);
    if (place == nullptr) {
      give_back(from, request);
      return;
    }
    const auto fail = [this, place, from, request](const std::string& why) {
      refusals_.warning(node_text(from) + " cannot be connected with " +
                        node_text(request.forward_to) + " by way of the host: " + why);
      give_back(from, request);
    };
    dial_peer(to, there,
              [this, from, back, fail](std::unique_ptr<stream> far, const connect_request& first,
                                       const std::string& why) {
                if (!far) {
                  fail(why);
                  return;
                }
                // Share the stream, because std::function needs captures that can be copied.
                auto held = std::make_shared<std::unique_ptr<stream>>(std::move(far));
                dial_peer(from, back,
                          [this, held, first, fail](std::unique_ptr<stream> near,
                                                    const connect_request& second,
                                                    const std::string& reason) {
                            if (!near) {
                              fail(reason);
                              return;
                            }
                            forward_streams(*loop_, {std::move(near), bytes_of(second)},
                                            {std::move(*held), bytes_of(first)});
                          });
              });
  }

  /// Counts a connection that this node makes at the request of `peer`, as long as the result
  /// lives. Returns null if `peer` has too many such connections.
  [[nodiscard]] std::shared_ptr<const void> place_for_request(node_id peer) {
    auto place = peers_.find(peer)->requests.take();
    if (place == nullptr)
      refusals_.warning(node_text(peer) + " asks for more connections than can be made at a time");
    return place;
  }

  [[nodiscard]] bool can_be_dialled(node_id peer) const noexcept {
    const peer_entry* const p = peers_.find(peer);
    return p != nullptr && !p->is_gone && !p->where.empty();
  }

  void dial_peer(node_id peer, connect_request o, dialled done) {
    if (o.from == no_node) o.from = own_.self;
    o.to = peer;
    dial(*loop_, peers_.find(peer)->where, security_, o, own_.heartbeat_timeout,
         clock::now() + own_.heartbeat_timeout,
         [ending = is_ending_, paths = paths_,
          done = std::move(done)](std::unique_ptr<stream> s, const connect_request& signed_request,
                                  const std::string& why) {
           if (ending->load()) return;
           if (s) s->watch_path(*paths);
           done(std::move(s), signed_request, why);
         });
  }

  void connect_bulk(node_id peer, std::uint64_t serial) {
    if (const peer_entry& p = *peers_.find(peer); p.where.empty() || p.is_forwarded) {
      ask_for_bulk(peer, serial);
      return;
    }
    connect_request o;
    o.serial = serial;
    o.kind = connection_kind::bulk;
    dial_peer(peer, o,
              [this, peer](std::unique_ptr<stream> s, const connect_request& first,
                           const std::string& why) {
                if (s) {
                  rma_engine_.add(peer, std::move(s), bytes_of(first), first.serial);
                } else if (forward_from_now_on(peer, why)) {
                  ask_for_bulk(peer, first.serial);
                } else {
                  rma_engine_.fail(peer, why);
                }
              });
  }

  void end_bulk(node_id peer, std::uint64_t serial) {
    ends_->give_up(peer, connection_kind::bulk, serial, [this, ending = is_ending_, peer, serial] {
      if (!ending->load()) rma_engine_.release(peer, serial);
    });
  }

  void add_bulk_server(node_id peer, std::uint64_t serial, std::unique_ptr<stream> s,
                       std::span<const std::byte> first) {
    const auto server = serve_bulk(*loop_, std::move(s), own_.windows, first);
    if (!ends_->add(peer, connection_kind::bulk, serial, server)) {
      server->revoke();
      return;
    }
    served_copies_.add({peer, connection_kind::bulk, serial, false, server});
  }

  void admit_connection(std::unique_ptr<stream> s, const connect_request& o) {
    if (!admitted(o.from) || is_gone(o.from)) {
      refuse("it comes from a node that is not in the job");
      return;
    }
    s->watch_path(*paths_);
    if (own_.tell_taken) own_.tell_taken(number_of(s->fd()));
    switch (o.kind) {
    case connection_kind::lane:
      if (!is_ring_size(o.ring_bytes)) {
        refusals_.error(node_text(o.from) + " opens a lane of impossible size; refused");
        return;
      }
      add_accepted(o.from, std::move(s), {}, o);
      return;
    case connection_kind::bulk:
      add_bulk_server(o.from, o.serial, std::move(s), {});
      return;
    case connection_kind::lane_back: {
      const auto lane = awaited_lane(o.from, o.serial);
      if (!lane) return;
      if (lane->is_attached()) {
        refuse("the lane that it is for has a connection");
        return;
      }
      lane->attach_or_give_up(std::move(s), {}, "");
      return;
    }
    case connection_kind::bulk_back:
      rma_engine_.add(o.from, std::move(s), {}, o.serial);
      return;
    case connection_kind::control:
    case connection_kind::join:
      break;
    }
    refuse("it is of a kind that nodes do not take");
  }

  void refuse(const std::string& why) { refusals_.warning("a connection is refused: " + why); }

  void add_accepted(node_id peer, std::unique_ptr<stream> s, std::span<const std::byte> first,
                    const connect_request& o) {
    doorbell& wakes = own_.doorbells[o.worker < own_.doorbells.size() ? o.worker : 0];
    const auto lane =
        std::make_shared<stream_endpoint>(*loop_, sweep_, o.ring_bytes, wakes, lane_role::acceptor);
    if (!ends_->add(peer, connection_kind::lane, o.serial, lane)) {
      refuse("its opener has given the lane up");
      return;
    }
    endpoint end;
    lane->fill(end);
    end.peer = peer;
    end.worker = o.worker;
    end.own_worker = o.own_worker != 0;
    lane->attach(std::move(s), first);
    {
      const std::lock_guard guard(mutex_);
      end.id = next_id_;
      next_id_ += 2;
      lanes_[end.id] = {lane, peer, o.serial, false};
      waiting_.push_back(end);
    }
    // Sequentially consistent: a receiver about to sleep either sees the new count, or is notified.
    arrivals_.fetch_add(1, std::memory_order_seq_cst);
    notify_of_lane(wakes, own_.doorbells.back(), end.own_worker);
  }

  /// On the loop's thread.
  std::vector<checked_connection> checked_connections() {
    std::vector<checked_connection> all = rma_engine_.connections();
    served_copies_.append_to(all);
    const std::lock_guard guard(mutex_);
    for (const auto& [id, e] : lanes_)
      all.push_back({e.peer, connection_kind::lane, e.serial, (id & opener_bit) != 0, e.lane});
    return all;
  }

  std::vector<std::shared_ptr<stream_endpoint>> all_lanes() {
    std::vector<std::shared_ptr<stream_endpoint>> all;
    const std::lock_guard guard(mutex_);
    for (const auto& [id, e] : lanes_)
      all.push_back(e.lane);
    return all;
  }

  bool has_unsent() {
    const auto lanes = all_lanes();
    return std::ranges::count_if(lanes, [](const auto& l) { return l->has_unsent(); }) != 0;
  }

  void sweep() {
    for (const auto& lane : all_lanes())
      lane->send_deferred();
    std::vector<std::shared_ptr<stream_endpoint>> done;
    {
      const std::lock_guard guard(mutex_);
      std::erase_if(lanes_, [&](const auto& l) {
        if (!l.second.is_closed || l.second.lane->is_lingering()) return false;
        done.push_back(l.second.lane);
        return true;
      });
    }
    for (const auto& lane : done)
      lane->cut();
  }

  event_loop* loop_;
  options own_; ///< owns the loop, which destructors of the members below use: keep this order
  counted_ptr<deferral_sweep> sweep_{new deferral_sweep(*loop_, [this] { sweep(); })};
  connection_security security_;
  node_table<peer_entry> peers_; ///< admitted peers
  std::shared_ptr<path_monitor> paths_;
  std::shared_ptr<delivery_checks> checks_ = std::make_shared<delivery_checks>(
      *loop_, own_.heartbeat_timeout, [this] { return checked_connections(); },
      own_.tell_of_delivery);
  std::shared_ptr<connection_ends> ends_;
  connection_list served_copies_; ///< used on the loop's thread only
  bulk_rma_engine rma_engine_;
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 2;
  std::map<std::uint64_t, entry> lanes_;
  std::deque<endpoint> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
  log::limited_log refusals_{"more connections were refused"};
  // Shared with functions that may run on the loop's thread after the transport's destruction.
  std::shared_ptr<std::atomic<bool>> is_ending_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<unproved_arrivals> unproved_ = std::make_shared<unproved_arrivals>();
};

} // namespace

std::unique_ptr<tcp_transport> make(event_loop& loop, options o) {
  return std::make_unique<tcp_transport_impl>(loop, std::move(o));
}

} // namespace farcall::tcp
