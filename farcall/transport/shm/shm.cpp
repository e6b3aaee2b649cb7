// SPDX-License-Identifier: Apache-2.0
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
#include <shared_mutex>
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

/// True if cross-memory attach can use the addresses that the peer itself uses. False if an
/// emulator runs the peer, so that the peer's architecture is not the machine's: the peer's
/// addresses may then be shifted, and may belong to the emulator.
bool has_true_addresses(const card& peer) {
  utsname own{};
  return peer.architecture.empty() || (::uname(&own) == 0 && peer.architecture == own.machine);
}

/// Returns the id of a lane: its index in the receive segment that has it, and whether this is the
/// own receive segment or the peer's. The serial number distinguishes the lane from earlier lanes
/// at the same index.
constexpr std::uint64_t endpoint_id(std::uint32_t serial, bool is_own_segment,
                                    std::uint32_t lane) noexcept {
  return std::uint64_t{serial} << 32 | (is_own_segment ? 0x10000U : 0U) | lane;
}
constexpr std::uint32_t serial_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id >> 32);
}
constexpr bool is_in_own_segment(const endpoint& end) noexcept { return (end.id & 0x10000) != 0; }
constexpr std::uint32_t lane_of(const endpoint& end) noexcept {
  return static_cast<std::uint32_t>(end.id) & 0xffff;
}
static_assert(max_receive_segment_lanes <= 65536);

/// Number of bytes at the start of each ring that are mapped when the lane is opened or accepted.
/// Mapping more would be wasteful, because most lanes carry few messages. In a job in which all
/// nodes call each other, mapping whole rings would take most of the job's memory and time.
constexpr std::size_t prefaulted_bytes = 8192;

void prefault_rings(const receive_segment& of, std::uint32_t lane) noexcept {
  const std::size_t bytes = std::min<std::size_t>(of.ring_bytes(), prefaulted_bytes);
  prefault(of.request_ring(lane), bytes);
  prefault(of.reply_ring(lane), bytes);
}

/// Copies large amounts of memory to and from peers, either through the mapped windows or by
/// cross-memory attach.
class shm_rma_engine final : public rma_engine {
 public:
  struct target {
    /// Process number of the peer, for cross-memory attach. Zero before the peer joins, after it
    /// has failed, and if cross-memory attach cannot use the peer's addresses.
    std::atomic<pid_t> pid{0};
    std::mutex mutex;
    std::vector<held_window> windows; ///< guarded by the mutex; empty after the peer has failed
  };

  explicit shm_rma_engine(std::size_t nodes) : targets_(nodes) {}

  /// Adds the peer with its windows, which are in the order of the card.
  void admit(const card& peer, std::vector<segment> windows) {
    auto made = targets_.make(peer.id);
    target* const t = &made->value;
    for (std::size_t i = 0; i < std::min(windows.size(), peer.windows.size()); ++i) {
      const auto memory = std::make_shared<const segment>(std::move(windows[i]));
      t->windows.push_back(
          {{peer.windows[i].address, std::min<std::uint64_t>(peer.windows[i].bytes, memory->size()),
            memory->data()},
           memory});
    }
    t->pid.store(has_true_addresses(peer) ? static_cast<pid_t>(peer.pid) : 0,
                 std::memory_order_relaxed);
    targets_.publish(std::move(made));
  }

  /// Unmaps the peer's windows, except windows that are still in use. Clears the peer's process
  /// number, because the system may soon give that number to another process.
  void forget(node_id peer) noexcept {
    target* const t = targets_.find(peer);
    if (t == nullptr) return;
    t->pid.store(0, std::memory_order_relaxed);
    // Declared before the guard, so that the windows are unmapped after the mutex was unlocked.
    std::vector<held_window> unused;
    const std::lock_guard guard(t->mutex);
    unused.swap(t->windows);
  }

  held_window window_at(node_id peer, std::uint64_t address) noexcept override {
    target* const t = targets_.find(peer);
    if (t == nullptr) return {};
    const std::lock_guard guard(t->mutex);
    for (const held_window& w : t->windows) {
      if (address - w.range.address < w.range.bytes) return w;
    }
    return {};
  }

  bool copies_from_both_ends(node_id peer) noexcept override {
    const target* const t = targets_.find(peer);
    return t != nullptr && t->pid.load(std::memory_order_relaxed) != 0;
  }

  bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
           time_point deadline) noexcept override {
    if (const held_bytes mapped = map(peer, to, bytes); mapped.here != nullptr) {
      copy_bytes(mapped.here, from, bytes);
      return true;
    }
    return attach_copy(::process_vm_writev, peer, const_cast<std::byte*>(from), to, bytes,
                       deadline);
  }

  bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
           time_point deadline) noexcept override {
    if (const held_bytes mapped = map(peer, from, bytes); mapped.here != nullptr) {
      copy_bytes(to, mapped.here, bytes);
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
      // Limit the bytes of one call. The system moves at most 2 GiB less a page in a call. If there
      // is a deadline, a call may only take a few milliseconds, because the deadline is checked
      // between calls.
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
    if (peer_entry* const p = peers_.find(peer.id))
      rma_engine_.admit(peer, std::exchange(p->windows, {}));
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    peer_entry* const p = peers_.find(peer);
    if (p == nullptr) throw error(node_text(peer) + " has shared no memory with this node", peer);
    const std::shared_lock addresses(addresses_mutex_);
    if (p->is_gone) throw node_failed(node_text(peer) + " has ended", peer);
    const receive_segment& there = seen(*p);
    for (std::uint32_t i = 0; i < there.lanes(); ++i) {
      lane_control& block = there.lane(i);
      std::uint64_t expected = lane_word(lane_state::free, 0);
      // Load the state before trying to change it. A thread that waits for a lane gets here often,
      // and must not write to the lane's cache line each time.
      if (block.word.load(std::memory_order_relaxed) != expected) continue;
      there.will_claim(i);
      // Acquire, paired with the release store in close(), so that the receiver no longer polls the
      // lane when this node uses it.
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
    // Return false if the peer's receive segment was not read yet. In this case open() was not
    // called for the peer, and so has not run out of lanes. Acquire, paired with the release store
    // in seen(), so that the view of the segment is complete.
    if (p == nullptr || !p->is_seen.load(std::memory_order_acquire)) return false;
    const std::shared_lock addresses(addresses_mutex_);
    if (p->is_gone) return false;
    const receive_segment& there = p->receive_segment;
    for (std::uint32_t i = 0; i < there.lanes(); ++i) {
      const lane_state state = state_of(there.lane(i).word.load(std::memory_order_relaxed));
      // Return true for a claimed lane, too, because its opener may still give it back. If the
      // opener opens the lane instead, the next call returns false.
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
      // Acquire, paired with the release store in set_up(), so that all writes of the opener to the
      // lane are visible.
      const std::uint64_t word = block.word.load(std::memory_order_acquire);
      const lane_state state = state_of(word);
      if (state != lane_state::open && state != lane_state::closing) continue;
      const node_id opener = opener_of(word);
      // Load the value once, because the opener may change it at any time.
      const std::uint32_t doorbell_index =
          std::atomic_ref<std::uint32_t>(block.doorbell).load(std::memory_order_relaxed);
      // Skip a lane with impossible contents, which another node has damaged. This node does not
      // repair such a lane, which stays unserved. Also skip a lane of a node that is not known yet.
      // A later call accepts that lane, once the node is known.
      peer_entry* const p = peers_.find(opener);
      if (p != nullptr && p->is_gone) {
        // The process of a failed peer has opened this lane late. The flag is read without its
        // lock, because forget() does not run at the same time.
        block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
        continue;
      }
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
    // Acquire, paired with the release in close(), so that all records are visible that the opener
    // has written before it closed the lane.
    return state_of(block.word.load(std::memory_order_acquire)) == lane_state::closing &&
           !has_record(end.in, end.in.tail);
  }

  void close(const endpoint& end) noexcept override {
    const std::uint32_t lane = lane_of(end);
    if (is_in_own_segment(end)) {
      if (accepted_[lane] != serial_of(end)) return;
      accepted_[lane] = 0;
      // Release, paired with the acquire exchange in open(), so that this node no longer polls the
      // lane when the next opener uses it.
      own_.own_receive_segment.lane(lane).word.store(lane_word(lane_state::free, 0),
                                                     std::memory_order_release);
      return;
    }
    {
      // Ignore a second call of close() for this lane, because the lane may belong to another
      // opener after the first call.
      const std::lock_guard guard(mutex_);
      if (opened_.erase(end.id) == 0) return;
    }
    const std::shared_lock addresses(addresses_mutex_);
    const peer_entry& peer = *peers_.find(end.peer);
    // The addresses of a peer that has ended may have the memory of another peer.
    if (peer.is_gone) return;
    const receive_segment& there = peer.receive_segment;
    lane_control& block = there.lane(lane);
    std::uint64_t expected = lane_word(lane_state::open, own_.self);
    // Release, paired with the acquire load in is_closed(), so that a receiver that finds the lane
    // closed also sees all records in it.
    if (block.word.compare_exchange_strong(expected, lane_word(lane_state::closing, own_.self),
                                           std::memory_order_release, std::memory_order_relaxed)) {
      notify_if_armed(there.doorbells()[end.worker]);
    }
  }

  void forget(node_id peer) noexcept override {
    rma_engine_.forget(peer);
    for (std::uint32_t i = 0; i < own_.own_receive_segment.lanes_claimed(); ++i) {
      lane_control& block = own_.own_receive_segment.lane(i);
      const std::uint64_t word = block.word.load(std::memory_order_acquire);
      if (accepted_[i] != 0 || state_of(word) == lane_state::free || opener_of(word) != peer)
        continue;
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
    }
    // Keep the addresses of the peer's receive segment mapped, because threads may still look for
    // replies in the rings of lanes that have failed, and may notify doorbells there. These threads
    // find no records in zeroed memory. The memory of a later node may get the addresses: then such
    // a thread may find a record, which it does not read, because the lane has failed, and may wake
    // a thread of the later node, which finds nothing to do.
    peer_entry* const p = peers_.find(peer);
    const std::lock_guard addresses(addresses_mutex_);
    if (p == nullptr || std::exchange(p->is_gone, true)) return;
    p->memory.detach();
    try {
      unused_.push_back(std::move(p->memory));
    } catch (const std::bad_alloc&) {
      // Without memory for the list, the addresses stay unused until the job ends.
    }
  }

  farcall::rma_engine* rma_engine() noexcept override { return &rma_engine_; }

 private:
  /// Returns the reason why the peer's memory cannot be shared: the peer is on another machine, or
  /// belongs to another user.
  [[nodiscard]] std::string difference_from(const card& peer) const {
    const std::size_t user = own_.machine.rfind('/') + 1;
    if (user == 0 || peer.machine.substr(0, user) != own_.machine.substr(0, user))
      return "another machine";
    return "another user, or user namespace (uid " + peer.machine.substr(user) + " there, " +
           own_.machine.substr(user) + " here); run host and targets as one user";
  }

  /// True if this node and the peer can open each other's memory files. They need this if the host
  /// is on another machine, so that the host has sent them no memory.
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
    auto made = peers_.make(node);
    peer_entry& entry = made->value;
    {
      // Use the addresses of a node that has ended. Otherwise a job that starts nodes again and
      // again would have ever more mappings.
      const std::lock_guard addresses(addresses_mutex_);
      const auto used = std::find_if(unused_.begin(), unused_.end(),
                                     [&](segment& old) { return receives.move_over(old); });
      if (used != unused_.end()) unused_.erase(used);
    }
    entry.memory = std::move(receives);
    // Close the files' descriptors. The mappings of the files stay.
    entry.memory.close_file();
    for (segment& window : windows)
      window.close_file();
    entry.windows = std::move(windows);
    peers_.publish(std::move(made));
    // Make this node's threads call accept() again, because accept() has skipped the lanes that the
    // new node has opened before this node knew it.
    const receive_segment& own = own_.own_receive_segment;
    // Increment the counter of new lanes before the doorbell is checked. Both are sequentially
    // consistent, so that one of two things holds: a receiver that is about to sleep sees the new
    // count, or this thread sees that the receiver has armed its doorbell.
    own.header().arrivals.fetch_add(1, std::memory_order_seq_cst);
    notify_if_armed(own.doorbells().back());
  }

  struct peer_entry {
    segment memory;       ///< its receive segment; empty once `is_gone` is true
    bool is_gone = false; ///< true once the peer has failed; guarded by addresses_mutex_
    /// Set before `is_seen` becomes true, and constant from then on.
    shm::receive_segment receive_segment;
    std::atomic<bool> is_seen{false};
    /// Windows of the peer, in the order of its card; empty after the peer was admitted.
    std::vector<segment> windows;
  };

  /// Returns the receive segment of a peer. This function reads the segment only when the first
  /// lane between the peer and this node is opened, because page tables grow with the memory that a
  /// process touches. Throws malformed_message.
  const receive_segment& seen(peer_entry& of) {
    // Acquire, paired with the release store below, so that the view of the segment is complete.
    if (!of.is_seen.load(std::memory_order_acquire)) [[unlikely]] {
      const std::lock_guard guard(mutex_);
      if (!of.receive_segment) of.receive_segment = receive_segment::view(of.memory);
      of.is_seen.store(true, std::memory_order_release);
    }
    return of.receive_segment;
  }

  /// Returns a new serial number, which is never zero.
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
    // Clear the starts of the rings, where an earlier lane may have left records.
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
    end.id = endpoint_id(next_serial(), false, lane);
    try {
      const std::lock_guard guard(mutex_);
      opened_.insert(end.id);
    } catch (const std::bad_alloc&) {
      block.word.store(lane_word(lane_state::free, 0), std::memory_order_release);
      throw;
    }

    // Release, paired with the acquire load in accept(), so that the acceptor sees all writes to
    // the lane above.
    block.word.store(lane_word(lane_state::open, own_.self), std::memory_order_release);
    // Increment the counter of new lanes before the doorbell is checked. Both are sequentially
    // consistent, so that one of two things holds: a receiver that is about to sleep sees the new
    // count, or this thread sees that the receiver has armed its doorbell.
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
    end.id = endpoint_id(accepted_[lane], true, lane);
    return end;
  }

  options own_;
  node_table<peer_entry> peers_;
  /// Serial numbers of the accepted lanes, by index; zero if a lane is not accepted.
  std::vector<std::uint32_t> accepted_;
  std::atomic<std::uint32_t> last_serial_{0};
  std::mutex mutex_;
  /// Excludes accesses to the lanes of a peer's receive segment, which hold it shared, from changes
  /// of the memory at its addresses. Taken before mutex_ if both are needed.
  mutable std::shared_mutex addresses_mutex_;
  std::vector<segment> unused_; ///< memory of peers that have ended; guarded by addresses_mutex_
  std::unordered_set<std::uint64_t> opened_; ///< ids of the lanes that this node has opened;
                                             ///< guarded by mutex_
  shm_rma_engine rma_engine_;
};

} // namespace

std::unique_ptr<transport> make(options o) { return std::make_unique<shm_transport>(std::move(o)); }

} // namespace farcall::shm
