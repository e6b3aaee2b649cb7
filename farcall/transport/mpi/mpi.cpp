// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/transport/message_transport.hpp>
#include <farcall/transport/mpi/address.hpp>
#include <farcall/transport/mpi/library.hpp>
#include <farcall/transport/mpi/mpi.hpp>
#include <farcall/transport/mpi/peers.hpp>
#include <farcall/transport/mpi/rma_engine.hpp>
#include <farcall/transport/mpi/world.hpp>

#include <utility>

#include <sched.h>

namespace farcall::mpi {
namespace {

/// Cost of a route over MPI: more than shared memory and UCX, less than TCP.
constexpr unsigned mpi_cost = 80;

/// Longest time, at the end of the job, for sending bytes that were committed before.
constexpr std::chrono::seconds last_sending{1};

/// Driver for the one thread that may call MPI. By this driver, the thread makes progress even if
/// it has no lane.
class engine_driver final : public lane_driver {
 public:
  explicit engine_driver(engine& of) noexcept : engine_(&of) {}
  void progress() noexcept override {
    if (!engine_->is_usable()) return;
    const std::unique_lock guard(engine_->mutex(), std::try_to_lock);
    if (guard) engine_->poll();
  }
  void arm() noexcept override { engine_->arm(); }

 private:
  engine* engine_;
};

class mpi_transport final : public message_transport, private engine::receiver {
 public:
  mpi_transport(const transport_site& site, std::uint32_t ring_bytes,
                std::shared_ptr<const world> over, threads level)
      : message_transport({"MPI", site.self, site.nodes, ring_bytes, site.doorbells}),
        name_("MPI (" + library_version() + ")"), engine_(*this, over, level, site.doorbells),
        peers_(site.nodes, over->size), rma_engine_(engine_, site.self, site.windows, peers_) {
    attach(engine_);
  }

  ~mpi_transport() override { end(); }

  mpi_transport(const mpi_transport&) = delete;
  mpi_transport& operator=(const mpi_transport&) = delete;

  std::string_view scheme() const noexcept override { return "mpi"; }

  void describe(card& mine) const override {
    const world& w = engine_.over();
    mine.transports["mpi"] = encode(address{w.number, key(), static_cast<std::uint32_t>(w.rank),
                                            static_cast<std::uint32_t>(engine_.tag())});
  }

  reachability reachability_of(const card& peer) const override {
    if (peer.id == site().self) return {false, 0, "the node itself"};
    if (!has_number_for_lanes(peer.id)) return {false, 0, high_number};
    const auto bytes = bytes_for(peer, "mpi");
    if (bytes.empty()) return {false, 0, "the node has no MPI, or none that farcall can use"};
    try {
      const address its = decode_address(bytes);
      if (its.world != engine_.over().number ||
          its.rank >= static_cast<std::uint32_t>(engine_.over().size)) {
        return {false, 0, "the node is not in this process's communicator"};
      }
    } catch (const malformed_message& e) {
      return {false, 0, e.what()};
    }
    return {true, mpi_cost, name_};
  }

  void admit(const card& peer) override {
    message_transport::admit(peer);
    const std::lock_guard guard(engine_.mutex());
    rma_engine_.resume(peer.id);
  }

  lane_driver* driver() noexcept override { return engine_.moves_by_itself() ? nullptr : &driver_; }
  void progress() noexcept override { engine_.on_wake_up(); }
  int wait_fd() const noexcept override { return engine_.wait_fd(); }

  void before_exit() noexcept override {
    end();
    finalize();
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

 private:
  void end() noexcept {
    if (engine_.is_forked()) return;
    {
      const std::lock_guard guard(engine_.mutex());
      before_end();
      is_ending_ = true;
    }
    // Stop the engine before the lanes and copies are destroyed, because MPI may still read and
    // write their memory.
    engine_.stop();
  }

  void take_card(const card& peer) override { peers_.admit(peer); }
  bool is_admitted(node_id peer) const noexcept override { return peers_.is_admitted(peer); }
  message_peer* find_peer(node_id peer) noexcept override { return peers_.find(peer); }
  message_peer& use_peer(node_id peer) override { return peers_.use(peer); }
  message_peer& connect_peer(node_id peer) override {
    if (engine_.has_ended()) {
      throw node_failed(node_text(peer) + " can no longer be reached: MPI was finalised", peer);
    }
    return peers_.connected(peer);
  }
  void for_each_used(const std::function<void(message_peer&)>& f) override {
    peers_.for_each_used(f);
  }
  bool is_up(const message_peer& peer) const noexcept override {
    const auto& to = static_cast<const connection&>(peer);
    return to.rank >= 0 && !to.has_failed && !to.is_gone;
  }
  void cut_peer(message_peer& peer) noexcept override {
    engine_.drop_queued(static_cast<connection&>(peer));
    rma_engine_.forget(peer.node);
  }
  bool is_forked() const noexcept override { return engine_.is_forked(); }

  // ---- messages that arrive; called with the engine's lock

  void on_message(std::uint16_t kind, int from, std::span<const std::byte> header,
                  std::span<const std::byte> bytes) noexcept override {
    if (is_ending_) return;
    if (kind <= last_lane_message) {
      take_lane_message(static_cast<lane_message>(kind), header, bytes);
      return;
    }
    copy_header h;
    if (kind > static_cast<std::uint16_t>(message::get) || !read_header(header, h) ||
        !is_from_peer(h.key, h.from)) {
      return;
    }
    rma_engine_.take(static_cast<message>(kind), from, h);
  }

  void after_progress() noexcept override {
    if (is_ending_) return;
    message_transport::after_progress();
    for (connection* const c : engine_.take_failures())
      lose_peer(*c);
  }

  void sweep() noexcept override {
    if (!is_ending_) message_transport::sweep();
  }

  void before_end() noexcept override {
    const time_point deadline = clock::now() + last_sending;
    while (!is_ending_ && engine_.is_usable() && (has_unsent() || engine_.has_unsent()) &&
           clock::now() < deadline) {
      if (engine_.progress() == 0) ::sched_yield();
    }
  }

  void on_end() noexcept override {
    if (is_ending_) return;
    peers_.for_each_used([this](message_peer& p) {
      if (p.is_gone || std::exchange(p.has_failed, true)) return;
      lose_peer(p);
    });
  }

  std::string name_;
  bool is_ending_ = false;
  engine engine_;
  engine_driver driver_{engine_};
  peer_table peers_;
  tagged_rma rma_engine_;
};

} // namespace

std::unique_ptr<transport> make(const transport_site& site, std::uint32_t ring_bytes,
                                std::chrono::milliseconds time) {
  if (std::string why = why_unusable(); !why.empty()) throw error(why);
  if (phase_now() == phase::ended) throw error("MPI was finalised before the job was made");
  if (phase_now() == phase::not_started) {
    if (site.group->communicator) throw error("MPI is not initialised");
    start();
  }
  const threads level = thread_level();
  // Begin to measure `time` here, because the start of MPI above takes seconds on a busy machine.
  return std::make_unique<mpi_transport>(site, ring_bytes,
                                         find_world(*site.group, deadline_after(time)), level);
}

} // namespace farcall::mpi
