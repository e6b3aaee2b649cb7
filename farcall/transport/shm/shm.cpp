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

/// Where a lane is: in whose home, and at which index. The serial number tells it from the lanes
/// that were there before.
constexpr std::uint64_t channel_id(std::uint32_t serial, node_id home_of,
                                   std::uint32_t lane) noexcept {
  return std::uint64_t{serial} << 32 | home_of << 8 | lane;
}
constexpr std::uint32_t serial_of(const channel& end) noexcept {
  return static_cast<std::uint32_t>(end.id >> 32);
}
constexpr node_id home_of(const channel& end) noexcept {
  return static_cast<std::uint32_t>(end.id) >> 8;
}
constexpr std::uint32_t lane_of(const channel& end) noexcept {
  return static_cast<std::uint32_t>(end.id) & 0xff;
}
static_assert(home_lanes <= 256);

/// Copies bulk memory to and from peers: through the mapped windows, or by cross-memory attach.
class shm_mover final : public mover {
 public:
  struct window {
    memory_window there;
    std::byte* here;
  };
  struct target {
    /// Zero before the peer joins, after it failed, and where its memory is not to be reached so.
    std::atomic<pid_t> pid{0};
    std::vector<window> windows;
  };

  explicit shm_mover(std::size_t nodes) : targets_(nodes) {}

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

  bool put(node_id peer, std::uint64_t to, const std::byte* from,
           std::uint64_t bytes) noexcept override {
    if (std::byte* here = map(peer, to, bytes)) {
      copy_bytes(here, from, bytes);
      return true;
    }
    return attach_copy(::process_vm_writev, peer, const_cast<std::byte*>(from), to, bytes);
  }

  bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes) noexcept override {
    if (const std::byte* here = map(peer, from, bytes)) {
      copy_bytes(to, here, bytes);
      return true;
    }
    return attach_copy(::process_vm_readv, peer, to, from, bytes);
  }

 private:
  template <class Call>
  bool attach_copy(Call call, node_id peer, std::byte* here, std::uint64_t there,
                   std::uint64_t bytes) noexcept {
    if (peer >= targets_.size()) return false;
    const pid_t pid = targets_[peer].pid.load(std::memory_order_relaxed);
    if (pid == 0) return false;
    while (bytes > 0) {
      // One call moves at most 2 GiB less a page.
      const std::size_t part = std::min<std::uint64_t>(bytes, std::uint64_t{1} << 30);
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
      : own_(std::move(o)), peers_(node_count(own_)), mover_(node_count(own_)) {
    for (peer_memory& peer : own_.peers) {
      peers_[peer.id].home = home::view(peer.home);
      peers_[peer.id].memory = &peer;
    }
  }

  std::string_view scheme() const noexcept override { return "shm"; }

  transport_traits traits() const noexcept override {
    return {record_limit(own_.own_home.ring_bytes()), true};
  }

  void describe(card& mine) const override { mine.machine = own_.machine; }

  reach reach_of(const card& peer) const override {
    if (own_.machine.empty()) return {false, 0, "this machine cannot be identified"};
    if (peer.machine != own_.machine) return {false, 0, "another machine"};
    if (peer.id == own_.self) return {false, 0, "the node itself"};
    if (peer.id >= peers_.size() || !peers_[peer.id].home) {
      return {false, 0, "its memory was not shared with us"};
    }
    return {true, shm_cost, "same machine, shared memory"};
  }

  void admit(const card& peer) override {
    if (peer.id < peers_.size() && peers_[peer.id].memory != nullptr) {
      mover_.admit(peer, peers_[peer.id].memory->windows);
    }
  }

  channel open(node_id peer, const lane_shape& shape) override {
    const home& there = peers_.at(peer).home;
    if (!there) throw error(node_text(peer) + " has shared no memory with this node", peer);
    for (std::uint32_t i = 0; i < home_lanes; ++i) {
      lane_block& block = there.lane(i);
      std::uint32_t expected = lane_word(lane_state::free, 0);
      // Acquire; partner: the release store in close(), after which the receiver no longer looks.
      if (!block.word.compare_exchange_strong(expected, lane_word(lane_state::claimed, own_.self),
                                              std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;
      }
      return set_up(peer, there, i, shape);
    }
    throw error(node_text(peer) + " has no lane left: all " + std::to_string(home_lanes) +
                    " are in use; end threads that no longer call it, or share fc::lane objects",
                peer);
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override {
    return own_.own_home.header().arrivals;
  }

  std::optional<channel> accept() override {
    for (std::uint32_t i = 0; i < home_lanes; ++i) {
      if (accepted_[i] != 0) continue;
      lane_block& block = own_.own_home.lane(i);
      // Acquire; partner: the release store in set_up().
      const std::uint32_t word = block.word.load(std::memory_order_acquire);
      const lane_state state = state_of(word);
      if (state != lane_state::open && state != lane_state::closing) continue;
      const node_id opener = opener_of(word);
      // Loaded once: the opener may still change it.
      const std::uint32_t bell_index =
          std::atomic_ref<std::uint32_t>(block.bell).load(std::memory_order_relaxed);
      // Not ours to repair: a lane with impossible contents stays unserved.
      if (opener >= peers_.size() || !peers_[opener].home || bell_index >= home_bells) continue;
      accepted_[i] = next_serial();
      return accepted_channel(opener, i, peers_[opener].home.bells()[bell_index]);
    }
    return std::nullopt;
  }

  bool is_closed(const channel& end) const noexcept override {
    const lane_block& block = own_.own_home.lane(lane_of(end));
    // Acquire; partner: the release store in close(): we see all that was sent before.
    return state_of(block.word.load(std::memory_order_acquire)) == lane_state::closing &&
           !has_record(end.in, end.in.tail);
  }

  void close(const channel& end) noexcept override {
    const std::uint32_t lane = lane_of(end);
    if (home_of(end) == own_.self) {
      if (accepted_[lane] != serial_of(end)) return;
      accepted_[lane] = 0;
      // Release; partner: the acquire exchange in open().
      own_.own_home.lane(lane).word.store(lane_word(lane_state::free, 0),
                                          std::memory_order_release);
      return;
    }
    peer_entry& peer = peers_[home_of(end)];
    std::uint32_t serial = serial_of(end);
    // Of several closes only the first counts: the lane may be another's by now.
    if (!peer.opened[lane].compare_exchange_strong(serial, 0, std::memory_order_relaxed)) return;
    lane_block& block = peer.home.lane(lane);
    std::uint32_t expected = lane_word(lane_state::open, own_.self);
    // Release; partner: the acquire load in is_closed().
    if (block.word.compare_exchange_strong(expected, lane_word(lane_state::closing, own_.self),
                                           std::memory_order_release, std::memory_order_relaxed)) {
      ring_if_asleep(peer.home.bells()[end.worker]);
    }
  }

  void forget(node_id peer) noexcept override {
    mover_.forget(peer);
    for (std::uint32_t i = 0; i < home_lanes; ++i) {
      lane_block& block = own_.own_home.lane(i);
      const std::uint32_t word = block.word.load(std::memory_order_acquire);
      if (accepted_[i] != 0 || state_of(word) == lane_state::free || opener_of(word) != peer)
        continue;
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
    }
  }

  farcall::mover* mover() noexcept override { return &mover_; }

 private:
  struct peer_entry {
    shm::home home;
    const peer_memory* memory = nullptr;
    /// Serial numbers of the lanes that we have open in the peer's home; zero: none.
    std::array<std::atomic<std::uint32_t>, home_lanes> opened{};
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

  channel set_up(node_id peer, const home& there, std::uint32_t lane, const lane_shape& shape) {
    lane_block& block = there.lane(lane);
    const std::uint32_t size = there.ring_bytes();
    block.bell = shape.bell;
    block.worker = shape.worker;
    block.own_worker = shape.own_worker ? 1 : 0;
    block.requests_consumed.store(0, std::memory_order_relaxed);
    block.replies_consumed.store(0, std::memory_order_relaxed);
    prefault(there.request_ring(lane), std::size_t{size} * 2);
    // An earlier lane may have left records where this one starts.
    clear_ring(there.request_ring(lane));
    clear_ring(there.reply_ring(lane));

    channel end;
    attach(end.out, there.request_ring(lane), size, block.requests_consumed);
    attach(end.in, there.reply_ring(lane), size, block.replies_consumed);
    bell& wakes = there.bells()[shape.worker];
    notify_on_commit(end.out, wakes);
    end.peer = peer;
    end.worker = shape.worker;
    end.own_worker = shape.own_worker;
    const std::uint32_t serial = next_serial();
    peers_[peer].opened[lane].store(serial, std::memory_order_relaxed);
    end.id = channel_id(serial, peer, lane);

    // Release; partner: the acquire load in accept().
    block.word.store(lane_word(lane_state::open, own_.self), std::memory_order_release);
    // A sequentially consistent step, so that a receiver about to sleep sees it or is seen.
    there.header().arrivals.fetch_add(1, std::memory_order_seq_cst);
    ring_if_asleep(shape.own_worker ? there.bells().back() : wakes);
    return end;
  }

  channel accepted_channel(node_id opener, std::uint32_t lane, bell& wakes) {
    const home& here = own_.own_home;
    lane_block& block = here.lane(lane);
    prefault(here.request_ring(lane), std::size_t{here.ring_bytes()} * 2);
    channel end;
    attach(end.in, here.request_ring(lane), here.ring_bytes(), block.requests_consumed);
    attach(end.out, here.reply_ring(lane), here.ring_bytes(), block.replies_consumed);
    notify_on_commit(end.out, wakes);
    end.peer = opener;
    end.worker = block.worker;
    end.own_worker = block.own_worker != 0;
    end.id = channel_id(accepted_[lane], own_.self, lane);
    return end;
  }

  options own_;
  std::vector<peer_entry> peers_;
  std::array<std::uint32_t, home_lanes> accepted_{}; ///< serial numbers; zero: not accepted
  std::atomic<std::uint32_t> last_serial_{0};
  shm_mover mover_;
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<shm_transport>(std::move(o)); }

} // namespace farcall::shm
