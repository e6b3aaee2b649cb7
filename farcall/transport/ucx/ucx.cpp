// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/message_transport.hpp>
#include <farcall/transport/ucx/peers.hpp>
#include <farcall/transport/ucx/rma_engine.hpp>
#include <farcall/transport/ucx/ucx.hpp>

#include <functional>
#include <utility>

#include <sched.h>

namespace farcall::ucx {
namespace {

/// Cost of a route over UCX: more than shared memory, less than TCP.
constexpr unsigned ucx_cost = 50;

/// Longest time, at the end of the job, for sending bytes that were committed before.
constexpr std::chrono::seconds last_sending{1};

class ucx_transport final : public message_transport, private worker::receiver {
 public:
  explicit ucx_transport(options o)
      : message_transport({"UCX", o.self, o.nodes, o.ring_bytes, o.doorbells}),
        machine_(std::move(o.machine)), worker_(*this), peers_(worker_, o.nodes),
        rma_engine_(worker_, o.self, std::move(o.windows), peers_) {
    attach(worker_);
    // Arm the worker now. A peer may send before any thread of this node sleeps, and so before any
    // thread arms the worker.
    worker_.arm();
  }

  ~ucx_transport() override {
    if (worker_.is_forked()) return;
    {
      const time_point deadline = clock::now() + last_sending;
      const std::lock_guard guard(worker_.mutex());
      while (has_unsent() && clock::now() < deadline) {
        if (worker_.progress() == 0) ::sched_yield();
      }
      is_ending_ = true;
    }
    // Stop the worker before the lanes and copies are destroyed, because UCX may still read and
    // write their memory.
    worker_.stop();
  }

  ucx_transport(const ucx_transport&) = delete;
  ucx_transport& operator=(const ucx_transport&) = delete;

  std::string_view scheme() const noexcept override { return "ucx"; }

  void describe(card& mine) const override {
    mine.transports["ucx"] =
        encode(address{key(), place_, worker_.own_resources().has_network(), worker_.address()});
  }

  reachability reachability_of(const card& peer) const override {
    if (peer.id == site().self) return {false, 0, "the node itself"};
    if (!has_number_for_lanes(peer.id)) return {false, 0, high_number};
    const auto bytes = bytes_for(peer, "ucx");
    if (bytes.empty()) return {false, 0, "the node has no UCX"};
    try {
      const address its = decode_address(bytes);
      // Check whether the peer is in this machine's network namespace, or both nodes have a
      // network. Without this check, UCX would send into memory that no process reads, because its
      // own check is weaker.
      const bool is_beside = peer.machine == machine_ && place_ != 0 && its.place == place_;
      if (!is_beside && !(its.has_network && worker_.own_resources().has_network())) {
        return {false, 0,
                "another machine, or network namespace, and UCX has no network on one of the two "
                "(UCX_TLS, UCX_NET_DEVICES?)"};
      }
    } catch (const malformed_message& e) {
      return {false, 0, e.what()};
    }
    const std::string by = worker_.own_resources().transports();
    return {true, ucx_cost, by.empty() ? "UCX" : "UCX (" + by + ")"};
  }

  void progress() noexcept override {
    worker_.on_wake_up([this] { sweep(); });
  }
  int wait_fd() const noexcept override { return worker_.wait_fd(); }

  void admit(const card& peer) override {
    message_transport::admit(peer);
    const std::lock_guard guard(worker_.mutex());
    rma_engine_.resume(peer.id);
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

 private:
  void take_card(const card& peer) override { peers_.admit(peer); }
  bool is_admitted(node_id peer) const noexcept override { return peers_.is_admitted(peer); }
  message_peer* find_peer(node_id peer) noexcept override {
    used_peer* const p = peers_.find(peer);
    return p == nullptr ? nullptr : &p->to;
  }
  message_peer& use_peer(node_id peer) override { return peers_.use(peer).to; }
  message_peer& connect_peer(node_id peer) override { return peers_.connected(peer); }
  void for_each_used(const std::function<void(message_peer&)>& f) override {
    peers_.for_each_used([&](used_peer& p) { f(p.to); });
  }
  bool is_up(const message_peer& peer) const noexcept override {
    const auto& to = static_cast<const connection&>(peer);
    return to.ep != nullptr && !to.has_failed && !to.is_gone;
  }
  void cut_peer(message_peer& peer) noexcept override {
    worker_.cut(static_cast<connection&>(peer));
    rma_engine_.forget(peer.node);
  }
  bool is_forked() const noexcept override { return worker_.is_forked(); }

  // ---- messages that arrive; called with the worker's lock

  ucs_status_t on_message(std::uint16_t kind, std::span<const std::byte> header, void* data,
                          std::size_t bytes, bool is_rendezvous) noexcept override {
    if (is_ending_) return UCS_OK;
    if (kind <= last_lane_message) {
      if (!is_rendezvous) {
        take_lane_message(static_cast<lane_message>(kind), header,
                          {static_cast<const std::byte*>(data), bytes});
      }
      return UCS_OK;
    }
    copy_header h;
    if (!read_header(header, h) || !is_from_peer(h.key, h.from)) return UCS_OK;
    return rma_engine_.take(static_cast<message>(kind), h, data, bytes, is_rendezvous);
  }

  void after_progress() noexcept override {
    if (is_ending_) return;
    message_transport::after_progress();
    rma_engine_.serve();
    if (worker_.has_failures()) [[unlikely]]
      lose_failed();
  }

  void lose_failed() noexcept {
    for (connection* const c : worker_.take_failures())
      lose_peer(*c);
  }

  std::string machine_;
  std::uint64_t place_ = own_place();
  bool is_ending_ = false;
  worker worker_;
  peer_table peers_;
  active_message_rma rma_engine_;
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<ucx_transport>(std::move(o)); }

} // namespace farcall::ucx
