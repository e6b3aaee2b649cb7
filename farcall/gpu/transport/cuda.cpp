// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/gpu/transport/cuda.hpp>
#include <farcall/gpu/transport/host_endpoint.hpp>
#include <farcall/gpu/transport/workers.hpp>
#include <farcall/memory/heap.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::cuda {
namespace {

/// Timeout of operations that wait until the device is idle.
constexpr std::chrono::seconds quiesce_timeout{10};

/// Interval at which an allocation that waits for launches checks whether they have ended.
constexpr std::chrono::microseconds launch_check_interval{200};

constexpr std::uint64_t device_alignment = 256;

/// An endpoint's id consists of three parts: the lane's number, a bit that is set for lanes to the
/// host, and the number of times that the lane was opened.
constexpr std::uint64_t lane_mask = 0xFFFF;
constexpr std::uint64_t up_bit = 0x10000;
constexpr unsigned generation_shift = 17;

/// Launches of a lane that had begun when the object was made: the lane's first `count` launches.
struct begun_launches {
  const host_endpoint* lane;
  std::uint64_t count;
  [[nodiscard]] bool have_ended() const noexcept { return lane->have_ended(count); }
};

void throw_if_failed(const workers& all, node_id node) {
  if (all.has_failed()) throw node_failed(node_text(node) + ": " + all.failure(), node);
}

/// Waits until no worker runs, and prevents starts of workers until the caller resumes them.
/// Returns false if workers still run at `deadline`. Throws node_failed if the device has failed,
/// because its kernels may never end, and CUDA would wait for them.
bool make_idle(workers& all, node_id node, time_point deadline) {
  const bool is_idle = all.quiesce(deadline);
  if (is_idle && all.has_failed()) all.resume();
  throw_if_failed(all, node);
  return is_idle;
}

class books final : public memory_domain {
 public:
  /// `under_way` is a function that returns the launches that have not ended.
  books(device_api& device, workers& all, node_id node, std::uint64_t bytes,
        std::function<std::vector<begun_launches>()> under_way)
      : device_(&device), workers_(&all), node_(node), under_way_(std::move(under_way)),
        range_(device.reserve(bytes)), heap_(0, range_.bytes),
        provided_(std::make_unique<std::atomic<bool>[]>(range_.bytes / piece + 1)) {}

  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment,
                         time_point deadline) override {
    std::unique_lock lock(mutex_, std::defer_lock);
    // Respect the deadline also while waiting for the mutex, because the thread that holds the
    // mutex may be waiting for an idle device, up to quiesce_timeout.
    if (deadline == no_deadline) {
      lock.lock();
    } else if (!lock.try_lock_until(deadline)) {
      throw_late();
    }
    const std::uint64_t offset =
        find_space(lock, bytes, std::max(alignment, device_alignment), deadline);
    try {
      provide(offset, bytes, deadline);
    } catch (...) {
      heap_.release(offset);
      throw;
    }
    return range_.address + offset;
  }

  bool release(std::uint64_t address) noexcept override {
    const std::lock_guard guard(mutex_);
    free_unused();
    if (address < range_.address || !heap_.block_size(address - range_.address)) return false;
    const std::uint64_t offset = address - range_.address;
    try {
      std::vector<begun_launches> users = under_way_();
      if (users.empty()) return heap_.release(offset).has_value();
      in_use_.push_back({offset, std::move(users)});
    } catch (const std::bad_alloc&) {
      // Leave the block allocated, because there is no memory to record which launches still use
      // it.
    }
    return true;
  }

  bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept override {
    if (address < range_.address || address - range_.address > range_.bytes ||
        bytes > range_.bytes - (address - range_.address)) {
      return false;
    }
    // Check that the pages are mapped, because a worker that accesses unmapped memory would make
    // the device unusable.
    const std::uint64_t offset = address - range_.address;
    for (std::uint64_t i = offset / piece; i * piece < offset + bytes; ++i) {
      if (!provided_[i].load(std::memory_order_acquire)) return false;
    }
    return true;
  }

 private:
  /// Bytes of the pieces in which memory is mapped on the device. Pieces are large, because the
  /// device must be idle for a moment whenever a piece is mapped.
  static constexpr std::uint64_t piece = std::uint64_t{64} << 20;

  struct released_block {
    std::uint64_t offset;
    std::vector<begun_launches> users;
    [[nodiscard]] bool is_unused() const noexcept {
      return std::all_of(users.begin(), users.end(),
                         [](const begun_launches& l) { return l.have_ended(); });
    }
  };

  void free_unused() noexcept {
    std::erase_if(in_use_, [this](const released_block& b) {
      if (!b.is_unused()) return false;
      (void)heap_.release(b.offset);
      return true;
    });
  }

  /// Finds space for a block. If there is none because earlier launches still use released blocks,
  /// waits for the launches to end, at most quiesce_timeout. Unlocks while it waits, because the
  /// thread that processes the ends of launches may need the lock.
  [[nodiscard]] std::uint64_t find_space(std::unique_lock<std::timed_mutex>& lock,
                                         std::uint64_t bytes, std::uint64_t alignment,
                                         time_point deadline) {
    const time_point end = clock::now() + quiesce_timeout;
    for (;;) {
      free_unused();
      if (const auto offset = heap_.allocate(bytes, alignment)) return *offset;
      if (in_use_.empty() || workers_->has_failed() || clock::now() >= end) break;
      if (clock::now() >= deadline) throw_late();
      lock.unlock();
      std::this_thread::sleep_for(launch_check_interval);
      if (deadline == no_deadline) {
        lock.lock();
      } else if (!lock.try_lock_until(deadline)) {
        throw_late();
      }
    }
    throw out_of_memory(std::to_string(bytes) + " bytes do not fit: the device has " +
                            std::to_string(range_.bytes) + " for this job, of which " +
                            std::to_string(heap_.bytes_in_use()) + " are in use and at most " +
                            std::to_string(heap_.largest_free()) + " free in one piece",
                        node_);
  }

  [[noreturn]] void throw_late() const {
    throw timeout("memory of the device was not there before the deadline: handlers or kernels " +
                      std::string("that run there have to end first"),
                  node_);
  }

  void provide(std::uint64_t offset, std::uint64_t bytes, time_point deadline) {
    const std::uint64_t first = offset / piece;
    const std::uint64_t end = (offset + std::max<std::uint64_t>(bytes, 1) + piece - 1) / piece;
    for (std::uint64_t i = first; i < end; ++i) {
      if (provided_[i].load(std::memory_order_relaxed)) continue;
      const time_point end = clock::now() + quiesce_timeout;
      if (!make_idle(*workers_, node_, std::min(end, deadline))) {
        if (deadline < end) throw_late();
        throw out_of_memory("more memory of the device needs it idle, and a handler did not end " +
                                std::string("within 10 s"),
                            node_);
      }
      try {
        device_->provide(range_.address + i * piece, std::min(piece, range_.bytes - i * piece));
      } catch (...) {
        workers_->resume();
        throw;
      }
      workers_->resume();
      // Release, paired with the acquire load in holds(), so that a thread that sees the flag can
      // use the memory.
      provided_[i].store(true, std::memory_order_release);
    }
  }

  device_api* device_;
  workers* workers_;
  node_id node_;
  std::function<std::vector<begun_launches>()> under_way_;
  device_api::range range_;
  std::timed_mutex mutex_;
  heap heap_;
  /// Blocks that the program has released, but that earlier launches still use.
  std::vector<released_block> in_use_;
  std::unique_ptr<std::atomic<bool>[]> provided_; ///< by piece
};

class transport_to_device final : public cuda_transport, public rma_engine {
 public:
  explicit transport_to_device(options o) : own_(std::move(o)), device_(std::move(own_.device)) {
    const std::uint32_t ups = own_.calls_to_host == 0 ? own_.workers : own_.calls_to_host;
    const std::uint32_t downs = own_.workers * lanes_per_worker;
    const std::uint64_t stride = lane_memory::stride(own_.ring_bytes);
    auto* const controls =
        reinterpret_cast<worker_control*>(device_->share(own_.workers * sizeof(worker_control)));
    std::byte* const blocks = device_->share((downs + ups) * stride);
    const std::uint64_t* const handlers = device_->upload(own_.program.handlers);
    const auto block = [&](std::uint32_t i) {
      return reinterpret_cast<lane_memory*>(blocks + i * stride);
    };
    std::vector<worker_setup> setups;
    for (std::uint32_t w = 0; w < own_.workers; ++w) {
      worker_setup s{};
      s.control = controls + w;
      s.first_lane = blocks + w * stride;
      s.lane_stride = own_.workers * stride;
      s.host_calls = block(downs + w);
      s.handlers = handlers;
      s.handler_count = static_cast<std::uint32_t>(own_.program.handlers.size());
      s.lanes = lanes_per_worker;
      s.ring_bytes = own_.ring_bytes;
      s.node = own_.node;
      s.idle_ns = static_cast<std::uint64_t>(own_.idle.count());
      s.lifetime_ns = lifetime_ns_for(s.idle_ns);
      s.call_ns = static_cast<std::uint64_t>(own_.call_timeout.count());
      setups.push_back(s);
    }
    workers_.emplace(*device_, std::move(setups));
    // One counter of finished blocks for each lane to the device. A counter has 4 bytes, and the
    // counters are 8 bytes apart.
    const std::vector<std::uint64_t> zeroes(own_.program.launch_of ? downs : 0);
    auto* const counters = reinterpret_cast<std::uint32_t*>(
        const_cast<std::uint64_t*>(zeroes.empty() ? nullptr : device_->upload(zeroes)));
    for (std::uint32_t i = 0; i < downs; ++i) {
      launching launches{own_.program.launch_of, device_.get(), own_.node, i % launch_streams,
                         counters == nullptr ? nullptr : counters + std::size_t{2} * i};
      down_.push_back(std::make_unique<end>(*block(i), own_.ring_bytes, *workers_, i % own_.workers,
                                            std::move(launches)));
    }
    for (std::uint32_t i = 0; i < ups; ++i) {
      up_.push_back(
          std::make_unique<end>(*block(downs + i), own_.ring_bytes, *workers_, i % own_.workers));
    }
    books_.emplace(*device_, *workers_, own_.node, own_.memory_bytes,
                   [this] { return launches_under_way(); });
    if (own_.try_out) workers_->try_out();
    workers_->begin({[this](std::uint32_t w) { return has_unread(w); },
                     [this] { return is_in_use(); }, [this] { receive(); }});
    neighbourhood& all = neighbours();
    const std::lock_guard guard(all.mutex);
    for (transport_to_device* const other : all.members)
      other->open_memory_to_peers();
    all.members.push_back(this);
  }

  ~transport_to_device() override {
    {
      neighbourhood& all = neighbours();
      const std::lock_guard guard(all.mutex);
      std::erase(all.members, this);
    }
    (void)stop(clock::now());
  }

  // ---- the transport

  std::string_view scheme() const noexcept override { return "cuda"; }
  transport_traits traits() const noexcept override {
    return {record_limit(own_.ring_bytes), false};
  }
  void describe(card& /*mine*/) const override {}

  reachability reachability_of(const card& peer) const override {
    if (peer.id != own_.node) return {false, 0, "not this device"};
    return {true, 5, "the device is driven by this process"};
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    const std::lock_guard guard(mutex_);
    for (std::uint32_t i = 0; i < down_.size(); ++i) {
      end& e = *down_[i];
      if (e.is_open || !e.lane.is_free()) continue;
      e.is_open = true;
      ++e.generation;
      if (!e.is_looked_at) workers_->add_lane(i % own_.workers, i / own_.workers);
      e.is_looked_at = true;
      e.lane.open(shape, own_.doorbells[shape.doorbell]);
      workers_->wake(i % own_.workers);
      endpoint c;
      e.lane.fill(c);
      c.takes_long = false;
      c.takes_stops = false;
      c.peer = own_.node;
      c.worker = shape.worker;
      c.own_worker = shape.own_worker;
      c.id = i | e.generation << generation_shift;
      return c;
    }
    throw no_lane_left(node_text(peer) + " has no lane left: its workers serve " +
                           std::to_string(down_.size()) +
                           " at a time; close fc::lane objects, or start it with more workers=",
                       peer);
  }
  bool is_lane_to_come(node_id /*peer*/) const noexcept override {
    const std::lock_guard guard(mutex_);
    return std::any_of(down_.begin(), down_.end(), [](const auto& e) { return !e->is_open; });
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }

  std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    for (std::uint32_t i = 0; i < up_.size() && !is_forgotten_; ++i) {
      end& e = *up_[i];
      if (e.is_open || !e.lane.has_been_opened()) continue;
      const lane_notice notices = e.lane.opening();
      e.is_open = true;
      e.is_announced = false;
      ++e.generation;
      e.lane.accept(own_.doorbells[notices.worker % own_.doorbells.size()]);
      endpoint c;
      e.lane.fill(c);
      c.takes_long = false;
      c.takes_stops = false;
      c.peer = own_.node;
      c.worker = notices.worker;
      c.own_worker = notices.own_worker != 0;
      c.id = i | up_bit | e.generation << generation_shift;
      return c;
    }
    return std::nullopt;
  }

  bool is_closed(const endpoint& accepted) const noexcept override {
    const std::lock_guard guard(mutex_);
    end* e = find(accepted);
    if (e == nullptr) return true;
    return e->lane.has_ended() && !has_record(accepted.in, accepted.in.tail);
  }

  void close(const endpoint& c) noexcept override {
    const std::lock_guard guard(mutex_);
    end* e = find(c);
    if (e == nullptr) return;
    e->is_open = false;
    if ((c.id & up_bit) != 0) {
      e->lane.end();
    } else {
      e->lane.close();
    }
  }

  void forget(node_id peer) noexcept override {
    if (peer != own_.node) return;
    const std::lock_guard guard(mutex_);
    is_forgotten_ = true;
  }

  void progress() noexcept override { receive(); }
  void arm() noexcept override { workers_->expect_soon(); }

  farcall::rma_engine* rma_engine() noexcept override { return this; }

  // ---- the RMA engine

  std::uint64_t threshold() const noexcept override { return device_->copies_from(); }
  bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
           time_point /*deadline*/) noexcept override {
    return copy(peer, to, to, reinterpret_cast<std::uintptr_t>(from), bytes);
  }
  bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
           time_point /*deadline*/) noexcept override {
    return copy(peer, from, reinterpret_cast<std::uintptr_t>(to), from, bytes);
  }
  std::string failure(node_id /*peer*/, std::uint64_t address, std::uint64_t bytes) override {
    throw_if_failed(*workers_, own_.node);
    if (!books_->holds(address, bytes)) return "no memory of the device lies there";
    const std::lock_guard guard(copy_mutex_);
    return copy_failure_;
  }

  bool runs_handler(std::uint32_t key) const noexcept override {
    const device_program& p = own_.program;
    return (key < p.handlers.size() && p.handlers[key] != 0) ||
           (key < p.launches.size() && p.launches[key]);
  }
  std::string missing_handler_text(const std::string& callable) const override {
    return " is a device, and this program has no code for it that runs " + callable +
           own_.program.how_to_get_code;
  }

  // ---- the device

  void describe_node(card& its) const override {
    const device_description d = device_->describe();
    its.architecture = d.architecture;
    its.cores = d.processors;
    its.workers = own_.workers;
  }

  device_description describe_device() const override { return device_->describe(); }
  memory_domain* memory() noexcept override { return books_ ? &*books_ : nullptr; }
  int failure_fd() const noexcept override { return workers_->failure_fd(); }
  std::string failure() const override { return workers_->failure(); }
  bool quiesce(time_point deadline) override {
    if (!make_idle(*workers_, own_.node, deadline)) return false;
    workers_->resume();
    return true;
  }
  void pin_resident(bool stay) override {
    workers_->set_idle(stay ? std::chrono::nanoseconds::max() : own_.idle);
    // Stop the running workers, because they keep the idle timeout with which they were started.
    if (!stay && workers_->quiesce(clock::now() + quiesce_timeout)) workers_->resume();
  }
  std::uint64_t starts() const noexcept override { return workers_->starts(); }
  void* stream_of(const endpoint& opened) noexcept override {
    return device_->stream(static_cast<std::uint32_t>(opened.id & lane_mask) % launch_streams);
  }
  std::vector<memory_handle> export_memory(std::uint64_t address, std::uint64_t bytes) override {
    if (!books_->holds(address, bytes))
      throw error("no memory of the device lies there", own_.node);
    return device_->export_memory(address, bytes);
  }
  void give_up(const std::string& why) noexcept override { workers_->give_up(why); }
  void diagnose(const std::function<void(const std::string&)>& say) override {
    for (std::uint32_t w = 0; w < own_.workers; ++w)
      say(workers_->text_of(w));
    const auto say_lanes = [&](const char* which, const ends& lanes) {
      for (std::uint32_t i = 0; i < lanes.size(); ++i) {
        // Skip lanes that no caller has used.
        if (!lanes[i]->lane.has_been_used()) continue;
        say(which + std::to_string(i) + " of worker " + std::to_string(i % own_.workers) + ": " +
            lanes[i]->lane.text());
      }
    };
    say_lanes("lane ", down_);
    say_lanes("lane of calls to the host ", up_);
    if (const std::string streams = device_->activity(); !streams.empty()) say(streams);
  }
  bool stop(time_point deadline) noexcept override {
    // Wait until the closed lanes are empty, because they may still hold calls by post(), for which
    // no caller has waited.
    while (is_closing_lanes() && !workers_->has_failed() && clock::now() < deadline) {
      receive();
      std::this_thread::yield();
    }
    return workers_->stop(deadline);
  }

  std::vector<lane_memory*> lanes_down() override { return blocks_of(down_); }
  std::vector<lane_memory*> lanes_up() override { return blocks_of(up_); }

 private:
  /// The devices of this process, which may be able to use each other's memory directly.
  struct neighbourhood {
    std::mutex mutex;
    std::vector<transport_to_device*> members;
  };
  static neighbourhood& neighbours() {
    static auto* const all = new neighbourhood;
    return *all;
  }

  /// Opens this device's memory to the other devices of this process. Called after another device
  /// was added. If the opening fails, the added device cannot directly use memory that was
  /// allocated on this device before.
  void open_memory_to_peers() noexcept {
    try {
      if (workers_->has_failed() || device_->is_open_to_peers()) return;
      if (!workers_->quiesce(clock::now() + quiesce_timeout))
        throw error("a handler did not end within 10 s");
      try {
        device_->open_to_peers();
      } catch (...) {
        workers_->resume();
        throw;
      }
      workers_->resume();
    } catch (const std::exception& e) {
      log::warning("memory that " + node_text(own_.node) +
                   " has cannot be used in place by a device that has come: " + e.what());
    }
  }

  struct end {
    end(lane_memory& b, std::uint32_t ring_bytes, workers& all, std::uint32_t worker,
        launching launches = {})
        : block(&b), lane(b, ring_bytes, all, worker, std::move(launches)) {}
    lane_memory* block;
    host_endpoint lane;
    bool is_open = false;
    bool is_looked_at = false; ///< by its worker
    bool is_announced = false; ///< true if arrivals() has counted this lane
    std::uint64_t generation = 0;
  };
  using ends = std::vector<std::unique_ptr<end>>;

  static std::vector<lane_memory*> blocks_of(const ends& all) {
    std::vector<lane_memory*> blocks;
    for (const auto& e : all)
      blocks.push_back(e->block);
    return blocks;
  }

  /// Returns this transport's end of the lane that the endpoint names. Returns null if the endpoint
  /// was closed.
  [[nodiscard]] end* find(const endpoint& c) const noexcept {
    const ends& all = (c.id & up_bit) != 0 ? up_ : down_;
    const std::uint64_t index = c.id & lane_mask;
    if (index >= all.size()) return nullptr;
    end& e = *all[index];
    return e.is_open && e.generation == c.id >> generation_shift ? &e : nullptr;
  }

  [[nodiscard]] bool has_unread(std::uint32_t worker) const noexcept {
    for (std::size_t i = worker; i < down_.size(); i += own_.workers) {
      if (down_[i]->lane.has_unread()) return true;
    }
    return false;
  }

  /// True if the host has closed a lane, and the lane's worker still polls it. receive() removes
  /// such a lane from its worker when the device has finished with the lane.
  [[nodiscard]] bool is_closing_lanes() const noexcept {
    const std::lock_guard guard(mutex_);
    return std::any_of(down_.begin(), down_.end(),
                       [](const auto& e) { return !e->is_open && e->is_looked_at; });
  }

  [[nodiscard]] std::vector<begun_launches> launches_under_way() const {
    std::vector<begun_launches> all;
    for (const auto& e : down_) {
      const begun_launches l{&e->lane, e->lane.launches_begun()};
      if (!l.have_ended()) all.push_back(l);
    }
    return all;
  }

  /// True while kernels run, or lanes wait for events of the program. The device will still write
  /// into the host's memory when they end.
  [[nodiscard]] bool is_in_use() const noexcept {
    return std::any_of(down_.begin(), down_.end(), [](const auto& e) {
      return e->lane.has_launches() || e->lane.awaits_event();
    });
  }

  /// Removes closed lanes from their workers, so that the workers don't poll them any more.
  void leave_closed_lanes() noexcept {
    const std::lock_guard guard(mutex_);
    for (std::uint32_t i = 0; i < down_.size(); ++i) {
      end& e = *down_[i];
      if (e.is_open || !e.is_looked_at || !e.lane.is_free()) continue;
      workers_->remove_lane(i % own_.workers, i / own_.workers);
      e.is_looked_at = false;
    }
  }

  void receive() noexcept {
    for (const auto& e : down_)
      e->lane.progress();
    leave_closed_lanes();
    for (const auto& e : up_) {
      e->lane.progress();
      if (!e->lane.has_been_opened()) continue;
      {
        const std::lock_guard guard(mutex_);
        if (e->is_open || std::exchange(e->is_announced, true)) continue;
      }
      // Increment the counter of new lanes before the doorbells are checked. Both are sequentially
      // consistent, so that one of two things holds: a receiver that is about to sleep sees the new
      // count, or this thread sees that the receiver has armed its doorbell.
      arrivals_.fetch_add(1, std::memory_order_seq_cst);
      const lane_notice notices = e->lane.opening();
      notify_of_lane(own_.doorbells[notices.worker % own_.doorbells.size()], own_.doorbells.back(),
                     notices.own_worker != 0);
    }
  }

  [[nodiscard]] bool copy(node_id peer, std::uint64_t on_device, std::uint64_t to,
                          std::uint64_t from, std::uint64_t bytes) noexcept {
    if (peer != own_.node || workers_->has_failed() || !books_->holds(on_device, bytes))
      return false;
    try {
      device_->copy(to, from, bytes);
      return true;
    } catch (const std::exception& e) {
      const std::lock_guard guard(copy_mutex_);
      copy_failure_ = e.what();
      return false;
    }
  }

  options own_;
  std::unique_ptr<device_api> device_;
  std::optional<workers> workers_;
  mutable std::mutex mutex_;
  ends down_;
  ends up_;
  std::optional<books> books_;
  /// True after forget(), so that no further lanes from the device are accepted.
  bool is_forgotten_ = false;
  std::atomic<std::uint32_t> arrivals_{0};
  std::mutex copy_mutex_;
  std::string copy_failure_;
};

} // namespace

std::unique_ptr<cuda_transport> make(options o) {
  return std::make_unique<transport_to_device>(std::move(o));
}

} // namespace farcall::cuda
