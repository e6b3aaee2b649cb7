// SPDX-License-Identifier: Apache-2.0

// A pair of a process that owns a device, and the device, whose end of the lanes is the workers'
// code.

#include <farcall/base/error.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/gpu/transport/cuda.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/staged_lane.hpp>
#include <tests/conformance/pairs.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace farcall::conformance {
namespace {

constexpr std::uint32_t device_workers = 4;
constexpr std::uint32_t lanes_each_way = device_workers * cuda::lanes_per_worker;
constexpr std::uint64_t device_bytes = std::uint64_t{16} << 20;

/// A device with memory and without workers: device_side serves the lanes.
class memory_only final : public cuda::device_api {
 public:
  cuda::device_description describe() const override { return {}; }
  std::byte* share(std::uint64_t bytes) override {
    shared_.push_back(make_line_aligned(bytes));
    return shared_.back().get();
  }
  const std::uint64_t* upload(std::span<const std::uint64_t> /*numbers*/) override {
    return nullptr;
  }
  range reserve(std::uint64_t /*at_most*/) override {
    return {reinterpret_cast<std::uintptr_t>(share(device_bytes)), device_bytes};
  }
  void provide(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override {}
  void start(std::uint32_t /*index*/, const cuda::worker_setup& /*setup*/) override {}
  std::optional<std::string> failure() override { return std::nullopt; }
  void join(std::uint32_t /*index*/) override {}
  void abandon() noexcept override {}
  void launch(std::uint32_t /*stream*/, cuda::launcher /*run*/,
              const cuda::launch_plan& /*plan*/) override {}
  void* stream(std::uint32_t /*index*/) override { return nullptr; }
  std::uint64_t copies_from() const noexcept override { return 0; }
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) override {
    if (bytes == 0) return;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }

 private:
  std::vector<line_aligned_memory> shared_;
};

/// A transport whose lanes are the device's ends of the owner's lanes.
class device_side final : public transport {
 public:
  device_side(cuda::cuda_transport& other, std::uint32_t ring_bytes, std::span<doorbell> doorbells)
      : ring_bytes_(ring_bytes), doorbells_(doorbells) {
    for (cuda::lane_memory* b : other.lanes_down())
      down_.push_back(std::make_unique<end>(*b, ring_bytes, *this));
    for (cuda::lane_memory* b : other.lanes_up())
      up_.push_back(std::make_unique<end>(*b, ring_bytes, *this));
    poller_ = std::thread([this] {
      while (!stopping_.load()) {
        pump();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  ~device_side() override {
    stopping_.store(true);
    poller_.join();
    pump();
  }

  std::string_view scheme() const noexcept override { return "cuda-device"; }
  transport_traits traits() const noexcept override { return {record_limit(ring_bytes_), false}; }
  void describe(card& /*mine*/) const override {}
  reachability reachability_of(const card& /*peer*/) const override {
    return {true, 5, "its owner"};
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    const std::lock_guard guard(mutex_);
    for (std::size_t i = 0; i < up_.size(); ++i) {
      end& e = *up_[i];
      // A closed lane is free once its notice of the close is in the host's slots.
      if (e.is_open || e.is_closing || e.has_unsent()) continue;
      e.reset(doorbells_[shape.doorbell]);
      e.is_open = true;
      ++e.generation;
      e.notices.push_back(
          {{commit_word(sizeof(cuda::lane_notice), cuda::lane_opened), shape.doorbell},
           shape.worker,
           shape.own_worker ? 1U : 0U});
      pump_locked(e);
      return endpoint_of(e, i | up_bit, peer, shape.worker, shape.own_worker);
    }
    throw no_lane_left(node_text(peer) + " has no lane left: there are " +
                           std::to_string(up_.size()) + "; close some",
                       peer);
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }

  std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return std::nullopt;
    const std::size_t i = waiting_.front();
    waiting_.pop_front();
    end& e = *down_[i];
    const auto* notices = reinterpret_cast<const cuda::lane_notice*>(e.opening.data());
    e.reset(doorbells_[notices->worker % doorbells_.size()]);
    e.is_open = true;
    ++e.generation;
    return endpoint_of(e, i, 0, notices->worker, notices->own_worker != 0);
  }

  bool is_closed(const endpoint& accepted) const noexcept override {
    const std::lock_guard guard(mutex_);
    const end* e = find(accepted);
    return e == nullptr || (e->is_ended && !has_record(accepted.in, accepted.in.tail));
  }

  void close(const endpoint& c) noexcept override {
    const std::lock_guard guard(mutex_);
    end* e = find(c);
    if (e == nullptr) return;
    e->is_open = false;
    if ((c.id & up_bit) != 0) {
      e->is_closing = true;
      pump_locked(*e);
    } else if (e->is_ended) {
      // Take the notice of the close, which gives the lane back to the host.
      e->lane.take();
      e->lane.tell_consumed();
      e->is_ended = false;
    }
  }

  void forget(node_id /*peer*/) noexcept override {}
  void progress() noexcept override { pump(); }

 private:
  static constexpr std::uint64_t up_bit = 0x10000;
  static constexpr std::uint64_t lane_mask = 0xFFFF;
  static constexpr unsigned generation_shift = 17;

  struct end final : lane_driver {
    end(cuda::lane_memory& b, std::uint32_t ring_bytes, device_side& all)
        : size(ring_bytes), owner(&all) {
      lane.resume(b, ring_bytes);
      rings = make_line_aligned(std::size_t{ring_bytes} * 2);
    }
    void progress() noexcept override { owner->pump(); }
    void arm() noexcept override {}

    void reset(doorbell& wakes) {
      out.reset(rings.get(), size);
      in.reset(rings.get() + size, size, wakes);
    }
    [[nodiscard]] bool has_unsent() const { return !notices.empty(); }

    std::uint32_t size;
    device_side* owner;
    cuda::device_endpoint lane{};
    line_aligned_memory rings; ///< out, then in
    staged_outbox out;
    staged_inbox in;
    bool is_open = false;
    bool is_closing = false;
    bool is_ended = false;
    std::uint64_t generation = 0;
    std::deque<cuda::lane_notice> notices;
    alignas(4) std::array<std::byte, sizeof(cuda::lane_notice)> opening{};
  };

  endpoint endpoint_of(end& e, std::uint64_t index, node_id peer, std::uint32_t worker,
                       bool own_worker) {
    endpoint c;
    e.out.attach(c.out);
    e.in.attach(c.in);
    notify_on_commit(c.out, [](void* self) noexcept { static_cast<end*>(self)->progress(); }, &e);
    c.driver = &e;
    c.peer = peer;
    c.worker = worker;
    c.own_worker = own_worker;
    c.id = index | e.generation << generation_shift;
    return c;
  }

  [[nodiscard]] end* find(const endpoint& c) const {
    const auto& all = (c.id & up_bit) != 0 ? up_ : down_;
    end& e = *all.at(c.id & lane_mask);
    return e.is_open && e.generation == c.id >> generation_shift ? &e : nullptr;
  }

  void pump() noexcept {
    const std::lock_guard guard(mutex_);
    for (const auto& e : down_)
      pump_locked(*e);
    for (const auto& e : up_)
      pump_locked(*e);
  }

  static void put(end& e, const std::uint32_t* words) {
    cuda::store_slot(e.lane.next_up(), words, cuda::words_of(words[0]),
                     cuda::phase_of(e.lane.up_next));
    ++e.lane.up_next;
  }

  static void send(end& e) {
    while (!e.notices.empty() && e.lane.has_space()) {
      put(e, reinterpret_cast<const std::uint32_t*>(&e.notices.front()));
      e.notices.pop_front();
    }
    while ((e.is_open || e.is_closing) && e.notices.empty()) {
      const record_view record = e.out.next();
      if (!record) break;
      if (!e.lane.has_space()) return;
      if (record.bytes <= cuda::slot_bytes) {
        put(e, reinterpret_cast<const std::uint32_t*>(record.data));
      } else {
        std::memcpy(e.lane.block->bounce_buffer(e.lane.next_bounce_offset(), e.size), record.data,
                    record.bytes);
        std::uint32_t words[4] = {};
        std::memcpy(words, record.data, sizeof(record_header));
        words[2] = e.lane.next_bounce_offset();
        e.lane.use_bounce();
        cuda::full_fence();
        put(e, words);
      }
      e.out.take(record);
      e.out.give_credit(e.out.taken());
    }
    if (e.is_closing && e.notices.empty()) {
      e.is_closing = false;
      e.notices.push_back({{commit_word(sizeof(cuda::lane_notice), cuda::lane_closed), 0}, 0, 0});
      send(e);
    }
  }

  void receive(end& e, std::size_t index, bool is_down) {
    for (;;) {
      alignas(16) std::uint32_t message[cuda::slot_words];
      if (!e.lane.look(message)) return;
      const std::uint32_t bytes = cuda::record_bytes(message[0]);
      const record_kind kind = commit_kind(message[0]);
      if (kind == cuda::lane_opened) {
        std::memcpy(e.opening.data(), message, e.opening.size());
        waiting_.push_back(index);
        arrivals_.fetch_add(1);
        const auto* notices = reinterpret_cast<const cuda::lane_notice*>(e.opening.data());
        notify_if_armed(notices->own_worker != 0 ? doorbells_.back()
                                                 : doorbells_[notices->worker % doorbells_.size()]);
      } else if (kind == cuda::lane_closed) {
        if (e.is_open && !e.is_ended) {
          e.is_ended = true;
          e.in.wake();
        }
        return;
      } else if (e.is_open) {
        std::byte* const to = e.in.reserve(bytes);
        if (to == nullptr) return;
        std::memcpy(to + 4, e.lane.record_of(message) + 4, bytes - 4);
        e.in.commit(to, bytes, kind);
      } else if (is_down) {
        return; // not accepted yet
      }
      e.lane.take();
      if (bytes > cuda::slot_bytes) e.lane.release_consumed();
    }
  }

  void pump_locked(end& e) {
    send(e);
    const bool is_down = std::any_of(down_.begin(), down_.end(),
                                     [&](const auto& other) { return other.get() == &e; });
    std::size_t index = 0;
    while (is_down && down_[index].get() != &e)
      ++index;
    receive(e, index, is_down);
    e.lane.tell_consumed();
  }

  std::uint32_t ring_bytes_;
  std::span<doorbell> doorbells_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<end>> down_;
  std::vector<std::unique_ptr<end>> up_;
  std::deque<std::size_t> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
  std::atomic<bool> stopping_{false};
  std::thread poller_;
};

class cuda_node_pair final : public node_pair {
 public:
  explicit cuda_node_pair(std::uint32_t ring_bytes) {
    cuda::options o;
    o.self = 0;
    o.node = 1;
    o.ring_bytes = ring_bytes;
    o.doorbells = doorbells_[0];
    auto device = std::make_unique<memory_only>();
    o.device = std::move(device);
    o.workers = device_workers;
    o.try_out = false;
    o.calls_to_host = lanes_each_way;
    owner_ = cuda::make(std::move(o));
    const std::uint64_t address = owner_->memory()->allocate(window_bytes, 64, no_deadline);
    window_ = {reinterpret_cast<std::byte*>(address), window_bytes};
    device_ = std::make_unique<device_side>(*owner_, ring_bytes, doorbells_[1]);
  }

  std::unique_ptr<node_end> make_end(unsigned side) override {
    return std::make_unique<one_end>(*this, side);
  }

 private:
  static constexpr std::uint64_t window_bytes = device_bytes - 4096;

  class one_end final : public node_end {
   public:
    one_end(cuda_node_pair& pair, unsigned side) : pair_(pair), side_(side) {}
    node_id id() const override { return side_; }
    transport& link() override {
      if (side_ == 0) return *pair_.owner_;
      return *pair_.device_;
    }
    std::span<doorbell> doorbells() override { return pair_.doorbells_[side_]; }
    std::span<std::byte> window() override {
      return side_ == 0 ? std::span<std::byte>(pair_.host_window_) : pair_.window_;
    }

   private:
    cuda_node_pair& pair_;
    unsigned side_;
  };

  std::array<std::array<doorbell, 8>, 2> doorbells_;
  std::unique_ptr<cuda::cuda_transport> owner_;
  std::span<std::byte> window_;
  std::vector<std::byte> host_window_ = std::vector<std::byte>(4096);
  std::unique_ptr<device_side> device_;
};

} // namespace

std::unique_ptr<node_pair> cuda_pair(std::uint32_t ring_bytes) {
  return std::make_unique<cuda_node_pair>(ring_bytes);
}

} // namespace farcall::conformance
