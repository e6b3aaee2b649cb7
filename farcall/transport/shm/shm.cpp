#include <farcall/base/error.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/transport/shm/shm.hpp>

#include <algorithm>
#include <array>

#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall::shm {
namespace {

constexpr unsigned shm_cost = 10;

/// Whether the system reads another process at the addresses that this process itself uses. Under
/// an emulator they may be shifted, and what lies there is the emulator's.
bool has_true_addresses(const card& peer) {
  utsname own{};
  return peer.architecture.empty() || (::uname(&own) == 0 && peer.architecture == own.machine);
}

/// Where a lane is: in whose receive segment, and at which index. The serial number tells it from
/// the lanes that were there before.
constexpr std::uint64_t endpoint_id(std::uint32_t serial, node_id receive_segment_of,
                                    std::uint32_t lane) noexcept {
  return std::uint64_t{serial} << 32 | receive_segment_of << 8 | lane;
}
constexpr std::uint32_t serial_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id >> 32);
}
constexpr node_id receive_segment_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id) >> 8;
}
constexpr std::uint32_t lane_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id) & 0xff;
}
static_assert(receive_segment_lanes <= 256);

/// Copies bulk memory to and from peers: through the mapped windows, or by cross-memory attach.
class shm_rma_engine final : public rma_engine {
 public:
  struct window {
    memory_window there;
    std::byte* here;
  };
  struct target {
    /// Zero before the peer joins, after it failed, and where its memory cannot be reached in this
    /// way.
    std::atomic<pid_t> pid{0};
    std::vector<window> windows;
  };

  explicit shm_rma_engine(std::size_t nodes) : targets_(nodes) {}

  void admit(const card& peer, const std::vector<segment>& windows) {
    target& t = targets_.at(peer.id);
    t.windows.clear();
    for (std::size_t i = 0; i < std::min(windows.size(), peer.windows.size()); ++i) {
      t.windows.push_back({{peer.windows[i].address,
                            std::min<std::uint64_t>(peer.windows[i].bytes, windows[i].size())},
                           windows[i].data()});
    }
    t.pid.store(has_true_addresses(peer) ? static_cast<pid_t>(peer.pid) : 0,
                std::memory_order_relaxed);
  }

  /// The number may soon be that of another process.
  void forget(node_id peer) noexcept {
    if (peer < targets_.size()) targets_[peer].pid.store(0, std::memory_order_relaxed);
  }

  std::byte* map(node_id peer, std::uint64_t address, std::uint64_t bytes) noexcept override {
    if (peer >= targets_.size()) return nullptr;
    for (const window& w : targets_[peer].windows) {
      const std::uint64_t offset = address - w.there.address;
      if (offset <= w.there.bytes && bytes <= w.there.bytes - offset) return w.here + offset;
    }
    return nullptr;
  }

  bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
           time_point deadline) noexcept override {
    if (std::byte* here = map(peer, to, bytes)) {
      copy_bytes(here, from, bytes);
      return true;
    }
    return attach_copy(::process_vm_writev, peer, const_cast<std::byte*>(from), to, bytes,
                       deadline);
  }

  bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
           time_point deadline) noexcept override {
    if (const std::byte* here = map(peer, from, bytes)) {
      copy_bytes(to, here, bytes);
      return true;
    }
    return attach_copy(::process_vm_readv, peer, to, from, bytes, deadline);
  }

 private:
  template <class Call>
  bool attach_copy(Call call, node_id peer, std::byte* here, std::uint64_t there,
                   std::uint64_t bytes, time_point deadline) noexcept {
    if (peer >= targets_.size()) return false;
    const pid_t pid = targets_[peer].pid.load(std::memory_order_relaxed);
    if (pid == 0) return false;
    while (bytes > 0) {
      if (deadline != no_deadline && clock::now() >= deadline) return false;
      // One call moves at most 2 GiB less a page; within a deadline, what takes a few milliseconds.
      const std::uint64_t most = std::uint64_t{1} << (deadline == no_deadline ? 30 : 24);
      const std::size_t part = std::min(bytes, most);
      const iovec local{here, part};
      const iovec remote{reinterpret_cast<void*>(there), part};
      const ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
      if (moved <= 0) return false;
      here += moved;
      there += static_cast<std::uint64_t>(moved);
      bytes -= static_cast<std::uint64_t>(moved);
    }
    return true;
  }

  std::vector<target> targets_;
};

class shm_transport final : public transport {
 public:
  explicit shm_transport(options o)
      : own_(std::move(o)), peers_(node_count(own_)), rma_engine_(node_count(own_)) {
    for (peer_memory& peer : own_.peers) {
      peers_[peer.id].receive_segment = receive_segment::view(peer.receive_segment);
      peers_[peer.id].memory = &peer;
    }
  }

  std::string_view scheme() const noexcept override { return "shm"; }

  transport_traits traits() const noexcept override {
    return {record_limit(own_.own_receive_segment.ring_bytes()), true};
  }

  void describe(card& mine) const override { mine.machine = own_.machine; }

  reachability reachability_of(const card& peer) const override {
    if (own_.machine.empty()) return {false, 0, "this machine cannot be identified"};
    if (peer.machine != own_.machine) return {false, 0, "another machine"};
    if (peer.id == own_.self) return {false, 0, "the node itself"};
    if (peer.id >= peers_.size() || !peers_[peer.id].receive_segment) {
      return {false, 0, "its memory was not shared with us"};
    }
    return {true, shm_cost, "same machine, shared memory"};
  }

  void admit(const card& peer) override {
    if (peer.id < peers_.size() && peers_[peer.id].memory != nullptr) {
      rma_engine_.admit(peer, peers_[peer.id].memory->windows);
    }
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    const receive_segment& there = peers_.at(peer).receive_segment;
    if (!there) throw error(node_text(peer) + " has shared no memory with this node", peer);
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
      lane_control& block = there.lane(i);
      std::uint32_t expected = lane_word(lane_state::free, 0);
      // First without writing: whoever waits for a lane looks often.
      if (block.word.load(std::memory_order_relaxed) != expected) continue;
      // Acquire; partner: the release store in close(), after which the receiver no longer polls
      // it.
      if (!block.word.compare_exchange_strong(expected, lane_word(lane_state::claimed, own_.self),
                                              std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;
      }
      return set_up(peer, there, i, shape);
    }
    throw no_lane_left(
        node_text(peer) + " has no lane left: all " + std::to_string(receive_segment_lanes) +
            " are in use; end threads that no longer call it, or share fc::lane objects",
        peer);
  }

  bool is_lane_to_come(node_id peer) const noexcept override {
    const receive_segment& there = peers_[peer].receive_segment;
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
      const lane_state state = state_of(there.lane(i).word.load(std::memory_order_relaxed));
      // One that is being opened will be open; whoever waits finds out then.
      if (state != lane_state::open) return true;
    }
    return false;
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override {
    return own_.own_receive_segment.header().arrivals;
  }

  std::optional<endpoint> accept() override {
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
      if (accepted_[i] != 0) continue;
      lane_control& block = own_.own_receive_segment.lane(i);
      // Acquire; partner: the release store in set_up().
      const std::uint32_t word = block.word.load(std::memory_order_acquire);
      const lane_state state = state_of(word);
      if (state != lane_state::open && state != lane_state::closing) continue;
      const node_id opener = opener_of(word);
      // Loaded once: the opener may still change it.
      const std::uint32_t doorbell_index =
          std::atomic_ref<std::uint32_t>(block.doorbell).load(std::memory_order_relaxed);
      // Not ours to repair: a lane with impossible contents stays unserved.
      if (opener >= peers_.size() || !peers_[opener].receive_segment ||
          doorbell_index >= receive_segment_doorbells)
        continue;
      accepted_[i] = next_serial();
      return accepted_endpoint(opener, i,
                               peers_[opener].receive_segment.doorbells()[doorbell_index]);
    }
    return std::nullopt;
  }

  bool is_closed(const endpoint& end) const noexcept override {
    const lane_control& block = own_.own_receive_segment.lane(lane_of(end));
    // Acquire; partner: the release store in close(): we see all that was sent before.
    return state_of(block.word.load(std::memory_order_acquire)) == lane_state::closing &&
           !has_record(end.in, end.in.tail);
  }

  void close(const endpoint& end) noexcept override {
    const std::uint32_t lane = lane_of(end);
    if (receive_segment_of(end) == own_.self) {
      if (accepted_[lane] != serial_of(end)) return;
      accepted_[lane] = 0;
      // Release; partner: the acquire exchange in open().
      own_.own_receive_segment.lane(lane).word.store(lane_word(lane_state::free, 0),
                                                     std::memory_order_release);
      return;
    }
    peer_entry& peer = peers_[receive_segment_of(end)];
    std::uint32_t serial = serial_of(end);
    // Of several closes only the first counts: the lane may be another's by now.
    if (!peer.opened[lane].compare_exchange_strong(serial, 0, std::memory_order_relaxed)) return;
    lane_control& block = peer.receive_segment.lane(lane);
    std::uint32_t expected = lane_word(lane_state::open, own_.self);
    // Release; partner: the acquire load in is_closed().
    if (block.word.compare_exchange_strong(expected, lane_word(lane_state::closing, own_.self),
                                           std::memory_order_release, std::memory_order_relaxed)) {
      notify_if_armed(peer.receive_segment.doorbells()[end.worker]);
    }
  }

  void forget(node_id peer) noexcept override {
    rma_engine_.forget(peer);
    for (std::uint32_t i = 0; i < receive_segment_lanes; ++i) {
      lane_control& block = own_.own_receive_segment.lane(i);
      const std::uint32_t word = block.word.load(std::memory_order_acquire);
      if (accepted_[i] != 0 || state_of(word) == lane_state::free || opener_of(word) != peer)
        continue;
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
    }
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

 private:
  struct peer_entry {
    shm::receive_segment receive_segment;
    const peer_memory* memory = nullptr;
    /// Serial numbers of the lanes that we have open in the peer's receive segment; zero: none.
    std::array<std::atomic<std::uint32_t>, receive_segment_lanes> opened{};
  };

  static std::size_t node_count(const options& o) {
    node_id highest = o.self;
    for (const peer_memory& peer : o.peers)
      highest = std::max(highest, peer.id);
    return std::size_t{highest} + 1;
  }

  /// Never zero.
  std::uint32_t next_serial() noexcept {
    std::uint32_t serial = 0;
    while (serial == 0)
      serial = last_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
    return serial;
  }

  endpoint set_up(node_id peer, const receive_segment& there, std::uint32_t lane,
                  const lane_shape& shape) {
    lane_control& block = there.lane(lane);
    const std::uint32_t size = there.ring_bytes();
    block.doorbell = shape.doorbell;
    block.worker = shape.worker;
    block.own_worker = shape.own_worker ? 1 : 0;
    block.requests_consumed.store(0, std::memory_order_relaxed);
    block.replies_consumed.store(0, std::memory_order_relaxed);
    prefault(there.request_ring(lane), std::size_t{size} * 2);
    // An earlier lane may have left records where this one starts.
    clear_ring(there.request_ring(lane));
    clear_ring(there.reply_ring(lane));

    endpoint end;
    attach(end.out, there.request_ring(lane), size, block.requests_consumed);
    attach(end.in, there.reply_ring(lane), size, block.replies_consumed);
    doorbell& wakes = there.doorbells()[shape.worker];
    notify_on_commit(end.out, wakes);
    end.peer = peer;
    end.worker = shape.worker;
    end.own_worker = shape.own_worker;
    const std::uint32_t serial = next_serial();
    peers_[peer].opened[lane].store(serial, std::memory_order_relaxed);
    end.id = endpoint_id(serial, peer, lane);

    // Release; partner: the acquire load in accept().
    block.word.store(lane_word(lane_state::open, own_.self), std::memory_order_release);
    // A sequentially consistent step, so that a receiver about to sleep sees it or is seen.
    there.header().arrivals.fetch_add(1, std::memory_order_seq_cst);
    notify_if_armed(shape.own_worker ? there.doorbells().back() : wakes);
    return end;
  }

  endpoint accepted_endpoint(node_id opener, std::uint32_t lane, doorbell& wakes) {
    const receive_segment& here = own_.own_receive_segment;
    lane_control& block = here.lane(lane);
    prefault(here.request_ring(lane), std::size_t{here.ring_bytes()} * 2);
    endpoint end;
    attach(end.in, here.request_ring(lane), here.ring_bytes(), block.requests_consumed);
    attach(end.out, here.reply_ring(lane), here.ring_bytes(), block.replies_consumed);
    notify_on_commit(end.out, wakes);
    end.peer = opener;
    end.worker = block.worker;
    end.own_worker = block.own_worker != 0;
    end.id = endpoint_id(accepted_[lane], own_.self, lane);
    return end;
  }

  options own_;
  std::vector<peer_entry> peers_;
  std::array<std::uint32_t, receive_segment_lanes>
      accepted_{}; ///< serial numbers; zero: not accepted
  std::atomic<std::uint32_t> last_serial_{0};
  shm_rma_engine rma_engine_;
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<shm_transport>(std::move(o)); }

} // namespace farcall::shm
