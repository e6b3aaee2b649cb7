// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/segment.hpp>
#include <farcall/transport/self/self.hpp>
#include <farcall/transport/shm/shm.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <tests/conformance/pairs.hpp>

#include <array>
#include <utility>

#include <fcntl.h>

namespace farcall::conformance {
namespace {

/// Maps the same memory again, because each node has its own mapping.
segment map_again(const segment& memory) {
  return segment::map(unique_fd(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)), memory.size());
}

class shm_end final : public node_end {
 public:
  shm_end(node_id id, const segment& receive_segment, const segment& window, node_id peer,
          const segment& peer_receive_segment, const segment& peer_window)
      : id_(id), receive_segment_memory_(map_again(receive_segment)), window_(map_again(window)),
        peer_(peer), peer_receive_segment_(peer_receive_segment), peer_window_(peer_window) {
    shm::options o;
    o.self = id;
    o.machine = machine_identity();
    o.own_receive_segment = shm::receive_segment::view(receive_segment_memory_);
    o.nodes = 2;
    receive_segment_ = o.own_receive_segment;
    transport_ = shm::make(std::move(o));
    take_memory_of_peer();
  }

  node_id id() const override { return id_; }
  transport& link() override { return *transport_; }
  std::span<doorbell> doorbells() override { return receive_segment_.doorbells(); }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }
  void meet(const card& peer) override {
    if (std::exchange(peer_, peer.id) != peer.id) take_memory_of_peer();
    transport_->admit(peer);
  }

 private:
  void take_memory_of_peer() {
    node_memory of_peer;
    of_peer.node = peer_;
    of_peer.receive_segment = map_again(peer_receive_segment_);
    of_peer.windows.push_back(map_again(peer_window_));
    (void)transport_->take_memory(of_peer);
  }

  node_id id_;
  segment receive_segment_memory_;
  segment window_;
  node_id peer_;
  const segment& peer_receive_segment_;
  const segment& peer_window_;
  shm::receive_segment receive_segment_;
  std::unique_ptr<transport> transport_;
};

class shm_node_pair final : public node_pair {
 public:
  explicit shm_node_pair(std::uint32_t ring_bytes, node_id second = 1) : ids_{0, second} {
    for (unsigned i : {0U, 1U}) {
      receive_segments_[i] =
          segment::create("farcall-test-receive", shm::receive_segment::bytes(ring_bytes));
      (void)shm::receive_segment::format(receive_segments_[i], ring_bytes);
      windows_[i] = segment::create("farcall-test-window", window_bytes);
    }
  }

  std::unique_ptr<node_end> make_end(unsigned side) override {
    const unsigned other = 1 - side;
    return std::make_unique<shm_end>(ids_[side], receive_segments_[side], windows_[side],
                                     ids_[other], receive_segments_[other], windows_[other]);
  }

  void replace_node_1() override { ids_[1] = successor_of(ids_[1]); }

 private:
  std::array<node_id, 2> ids_;
  std::array<segment, 2> receive_segments_;
  std::array<segment, 2> windows_;
};

/// Both sides use the same transport.
class self_node_pair final : public node_pair {
 public:
  explicit self_node_pair(std::uint32_t ring_bytes)
      : transport_(self::make({0, ring_bytes, doorbells_})) {}

  std::unique_ptr<node_end> make_end(unsigned /*side*/) override {
    return std::make_unique<self_end>(*this);
  }

 private:
  class self_end final : public node_end {
   public:
    explicit self_end(self_node_pair& pair) : pair_(pair) {}
    node_id id() const override { return 0; }
    transport& link() override { return *pair_.transport_; }
    std::span<doorbell> doorbells() override { return pair_.doorbells_; }

   private:
    self_node_pair& pair_;
  };

  std::array<doorbell, 8> doorbells_;
  std::unique_ptr<transport> transport_;
};

} // namespace

std::unique_ptr<node_pair> shm_pair(std::uint32_t ring_bytes) {
  return std::make_unique<shm_node_pair>(ring_bytes);
}

std::unique_ptr<node_pair> later_shm_pair(std::uint32_t ring_bytes) {
  return std::make_unique<shm_node_pair>(ring_bytes, later_node);
}

std::unique_ptr<node_pair> self_pair(std::uint32_t ring_bytes) {
  return std::make_unique<self_node_pair>(ring_bytes);
}

} // namespace farcall::conformance
