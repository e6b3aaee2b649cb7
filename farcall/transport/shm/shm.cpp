#include <farcall/base/error.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/transport/shm/open_files.hpp>
#include <farcall/transport/shm/shm.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

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
  return std::uint64_t{serial} << 32 | receive_segment_of << 16 | lane;
}
constexpr std::uint32_t serial_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id >> 32);
}
constexpr node_id receive_segment_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id) >> 16;
}
constexpr std::uint32_t lane_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id) & 0xffff;
}
static_assert(most_receive_segment_lanes <= 65536 && most_node_numbers <= 65536);

/// Of each ring, what is mapped ahead of its first use. Most lanes carry few messages; whole rings
/// would be most of the memory, and of the time, of a job in which all nodes call all others.
constexpr std::size_t prefaulted_bytes = 8192;

void prefault_rings(const receive_segment& of, std::uint32_t lane) noexcept {
  const std::size_t bytes = std::min<std::size_t>(of.ring_bytes(), prefaulted_bytes);
  prefault(of.request_ring(lane), bytes);
  prefault(of.reply_ring(lane), bytes);
}

/// Copies bulk memory to and from peers: through the mapped windows, or by cross-memory attach.
class shm_rma_engine final : public rma_engine {
 public:
  struct target {
    /// Zero before the peer joins, after it failed, and where its memory cannot be reached in this
    /// way.
    std::atomic<pid_t> pid{0};
    std::vector<mapped_window> windows;
  };

  explicit shm_rma_engine(std::size_t nodes) : targets_(nodes) {}

  void admit(const card& peer, const std::vector<segment>& windows) {
    auto t = std::make_unique<target>();
    for (std::size_t i = 0; i < std::min(windows.size(), peer.windows.size()); ++i) {
      t->windows.push_back({peer.windows[i].address,
                            std::min<std::uint64_t>(peer.windows[i].bytes, windows[i].size()),
                            windows[i].data()});
    }
    t->pid.store(has_true_addresses(peer) ? static_cast<pid_t>(peer.pid) : 0,
                 std::memory_order_relaxed);
    targets_.publish(peer.id, std::move(t));
  }

  /// The number may soon be that of another process.
  void forget(node_id peer) noexcept {
    if (target* const t = targets_.find(peer)) t->pid.store(0, std::memory_order_relaxed);
  }

  mapped_window window_at(node_id peer, std::uint64_t address) noexcept override {
    const target* const t = targets_.find(peer);
    if (t == nullptr) return {};
    for (const mapped_window& w : t->windows) {
      if (address - w.address < w.bytes) return w;
    }
    return {};
  }

  bool copies_from_both_ends(node_id peer) noexcept override {
    const target* const t = targets_.find(peer);
    return t != nullptr && t->pid.load(std::memory_order_relaxed) != 0;
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
    const target* const t = targets_.find(peer);
    if (t == nullptr) return false;
    const pid_t pid = t->pid.load(std::memory_order_relaxed);
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

  node_table<target> targets_;
};

class shm_transport final : public transport {
 public:
  explicit shm_transport(options o)
      : own_(std::move(o)), peers_(own_.nodes), accepted_(own_.own_receive_segment.lanes()),
        rma_engine_(own_.nodes) {}

  std::string_view scheme() const noexcept override { return "shm"; }

  transport_traits traits() const noexcept override {
    return {record_limit(own_.own_receive_segment.ring_bytes()), true};
  }

  void describe(card& mine) const override {
    mine.machine = own_.machine;
    if (!own_.files.empty()) {
      mine.transports[std::string(scheme())] = open_files::describe(own_.files).encode();
    }
  }

  reachability reachability_of(const card& peer) const override {
    if (own_.machine.empty()) return {false, 0, "this machine cannot be identified"};
    if (peer.machine != own_.machine) return {false, 0, difference_from(peer)};
    if (peer.id == own_.self) return {false, 0, "the node itself"};
    if (peers_.find(peer.id) == nullptr && !can_find_each_other(peer)) {
      return {false, 0, "its memory was not shared with us"};
    }
    return {true, shm_cost, "same machine, shared memory"};
  }

  bool take_memory(node_memory& of) override {
    take(of.node, std::move(of.receive_segment), std::move(of.windows));
    return true;
  }

  void admit(const card& peer) override {
    if (peers_.find(peer.id) == nullptr && can_find_each_other(peer)) {
      std::vector<segment> all = open_files::decode(bytes_for(peer, scheme())).map(peer.id);
      segment receives = std::move(all.front());
      all.erase(all.begin());
      take(peer.id, std::move(receives), std::move(all));
    }
    if (const peer_entry* const p = peers_.find(peer.id)) rma_engine_.admit(peer, p->windows);
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    peer_entry* const p = peers_.find(peer);
    if (p == nullptr) throw error(node_text(peer) + " has shared no memory with this node", peer);
    const receive_segment& there = seen(*p);
    for (std::uint32_t i = 0; i < there.lanes(); ++i) {
      lane_control& block = there.lane(i);
      std::uint32_t expected = lane_word(lane_state::free, 0);
      // First without writing: whoever waits for a lane looks often.
      if (block.word.load(std::memory_order_relaxed) != expected) continue;
      there.will_claim(i);
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
        node_text(peer) + " has no lane left: all " + std::to_string(there.lanes()) +
            " are in use; end threads that no longer call it, or share fc::lane objects",
        peer);
  }

  bool is_lane_to_come(node_id peer) const noexcept override {
    const peer_entry* const p = peers_.find(peer);
    // open() has seen it. Acquire; partner: the release store in seen().
    if (p == nullptr || !p->is_seen.load(std::memory_order_acquire)) return false;
    const receive_segment& there = p->receive_segment;
    for (std::uint32_t i = 0; i < there.lanes(); ++i) {
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
    const std::uint32_t claimed = own_.own_receive_segment.lanes_claimed();
    for (std::uint32_t i = 0; i < claimed; ++i) {
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
      // Not ours to repair: a lane with impossible contents stays unserved. One of a node that is
      // not known yet is found when it is.
      peer_entry* const p = peers_.find(opener);
      if (p == nullptr || doorbell_index >= receive_segment_doorbells) continue;
      std::span<doorbell> doorbells;
      try {
        doorbells = seen(*p).doorbells();
      } catch (const malformed_message&) {
        continue;
      }
      accepted_[i] = next_serial();
      return accepted_endpoint(opener, i, doorbells[doorbell_index]);
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
    {
      // Of several closes only the first counts: the lane may be another's by now.
      const std::lock_guard guard(mutex_);
      if (opened_.erase(end.id) == 0) return;
    }
    const receive_segment& there = peers_.find(receive_segment_of(end))->receive_segment;
    lane_control& block = there.lane(lane);
    std::uint32_t expected = lane_word(lane_state::open, own_.self);
    // Release; partner: the acquire load in is_closed().
    if (block.word.compare_exchange_strong(expected, lane_word(lane_state::closing, own_.self),
                                           std::memory_order_release, std::memory_order_relaxed)) {
      notify_if_armed(there.doorbells()[end.worker]);
    }
  }

  void forget(node_id peer) noexcept override {
    rma_engine_.forget(peer);
    for (std::uint32_t i = 0; i < own_.own_receive_segment.lanes_claimed(); ++i) {
      lane_control& block = own_.own_receive_segment.lane(i);
      const std::uint32_t word = block.word.load(std::memory_order_acquire);
      if (accepted_[i] != 0 || state_of(word) == lane_state::free || opener_of(word) != peer)
        continue;
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
    }
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

 private:
  /// Says whether the peer is on another machine, or another user's process.
  [[nodiscard]] std::string difference_from(const card& peer) const {
    const std::size_t user = own_.machine.rfind('/') + 1;
    if (user == 0 || peer.machine.substr(0, user) != own_.machine.substr(0, user))
      return "another machine";
    return "another user, or user namespace (uid " + peer.machine.substr(user) + " there, " +
           own_.machine.substr(user) + " here); run host and targets as one user";
  }

  /// Neither was given the other's memory, as the host is on another machine.
  [[nodiscard]] bool can_find_each_other(const card& peer) const {
    const std::span<const std::byte> told = bytes_for(peer, scheme());
    if (own_.files.empty() || told.empty()) return false;
    try {
      return open_files::decode(told).is_near();
    } catch (const malformed_message&) {
      return false;
    }
  }

  void take(node_id node, segment receives, std::vector<segment> windows) {
    auto entry = std::make_unique<peer_entry>();
    entry->memory = std::move(receives);
    entry->windows = std::move(windows);
    // Mapped: nothing else needs the descriptors.
    entry->memory.close_file();
    for (segment& window : entry->windows)
      window.close_file();
    peers_.publish(node, std::move(entry));
    // It may know us already, and have opened lanes that accept() has passed over.
    const receive_segment& own = own_.own_receive_segment;
    // Sequentially consistent, so that a receiver about to sleep sees it or is seen.
    own.header().arrivals.fetch_add(1, std::memory_order_seq_cst);
    notify_if_armed(own.doorbells().back());
  }

  struct peer_entry {
    segment memory;                       ///< where it receives
    shm::receive_segment receive_segment; ///< constant once `is_seen` is true
    std::atomic<bool> is_seen{false};
    std::vector<segment> windows; ///< memory its kernels allocate from, in the card's order
  };

  /// Where the peer receives. Nothing is read there before the first lane between it and us: page
  /// tables are made for what a process has touched. Throws malformed_message.
  const receive_segment& seen(peer_entry& of) {
    // Acquire; partner: the release store below.
    if (!of.is_seen.load(std::memory_order_acquire)) [[unlikely]] {
      const std::lock_guard guard(mutex_);
      if (!of.receive_segment) of.receive_segment = receive_segment::view(of.memory);
      of.is_seen.store(true, std::memory_order_release);
    }
    return of.receive_segment;
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
    prefault_rings(there, lane);
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
    end.id = endpoint_id(next_serial(), peer, lane);
    try {
      const std::lock_guard guard(mutex_);
      opened_.insert(end.id);
    } catch (const std::bad_alloc&) {
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
      throw;
    }

    // Release; partner: the acquire load in accept().
    block.word.store(lane_word(lane_state::open, own_.self), std::memory_order_release);
    // A sequentially consistent step, so that a receiver about to sleep sees it or is seen.
    there.header().arrivals.fetch_add(1, std::memory_order_seq_cst);
    notify_of_lane(wakes, there.doorbells().back(), shape.own_worker);
    return end;
  }

  endpoint accepted_endpoint(node_id opener, std::uint32_t lane, doorbell& wakes) {
    const receive_segment& here = own_.own_receive_segment;
    lane_control& block = here.lane(lane);
    prefault_rings(here, lane);
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
  node_table<peer_entry> peers_;
  std::vector<std::uint32_t> accepted_; ///< serial numbers; zero: not accepted
  std::atomic<std::uint32_t> last_serial_{0};
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> opened_; ///< ids of lanes that we have open; with the mutex
  shm_rma_engine rma_engine_;
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<shm_transport>(std::move(o)); }

} // namespace farcall::shm
