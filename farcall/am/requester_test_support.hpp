// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/am/message.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/transport.hpp>
#include <tests/ring_support.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Support for tests of one end of a lane: the test plays the other end, and the rings are plain
/// memory of this process.
namespace farcall::test {

/// Peer of all lanes here; the engine itself is node 0.
inline constexpr node_id peer_id = 1;

/// The two rings of a lane, from which the ends of both sides are made.
class ring_pair {
 public:
  explicit ring_pair(std::uint64_t size = min_ring) : requests_(size), replies_(size) {}

  /// Returns the end of the node that opened the lane. Use each end once: it holds the ring's
  /// state.
  [[nodiscard]] endpoint opener() const {
    endpoint c;
    c.out = requests_.out;
    c.in = replies_.in;
    c.peer = peer_id;
    return c;
  }
  /// Returns the end of the node that serves the lane.
  [[nodiscard]] endpoint server() const {
    endpoint c;
    c.out = replies_.out;
    c.in = requests_.in;
    c.peer = peer_id;
    return c;
  }
  /// Writes a commit word that the reader of a fresh ring finds first.
  void forge_request(std::uint32_t word) noexcept { requests_.forge(0, word); }
  void forge_reply(std::uint32_t word) noexcept { replies_.forge(0, word); }

 private:
  private_ring requests_;
  private_ring replies_;
};

/// Sends a record with `body` behind the first eight bytes. False if the ring is full.
[[nodiscard]] inline bool send_record(outbox& out, record_kind kind, std::uint32_t slot,
                                      std::string_view body = {}) {
  const auto bytes = static_cast<std::uint32_t>(sizeof(record_header) + body.size());
  std::byte* record = try_reserve(out, bytes);
  if (record == nullptr) return false;
  std::memcpy(record + offsetof(record_header, slot), &slot, sizeof slot);
  // Not memcpy: the text may be empty, and its address null.
  std::transform(body.begin(), body.end(), record + sizeof(record_header),
                 [](char c) { return static_cast<std::byte>(c); });
  commit(out, record, bytes, kind);
  return true;
}

/// Returns the bytes of a record after the first eight.
[[nodiscard]] inline std::string body_of(const record_view& record) {
  return {reinterpret_cast<const char*>(record.data) + sizeof(record_header),
          record.bytes - sizeof(record_header)};
}

[[nodiscard]] inline std::uint32_t slot_of(const record_view& record) {
  record_header header{};
  std::memcpy(&header, record.data, sizeof header);
  return header.slot;
}

/// Returns the bytes of a number or struct.
template <class T>
[[nodiscard]] std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Sends a request with these arguments. False if the ring is full.
[[nodiscard]] inline bool send_request(outbox& out, am::handler_key key, std::uint32_t slot,
                                       std::string_view arguments = {},
                                       record_kind kind = record_kind::request) {
  std::string body = bytes_of(key);
  body += bytes_of(std::uint32_t{0});
  body += arguments;
  return send_record(out, kind, slot, body);
}

/// Reads and writes memory of this process as if it were the peer's.
class fake_rma_engine final : public rma_engine {
 public:
  held_window window_at(node_id /*peer*/, std::uint64_t address) noexcept override {
    if (!maps) return {};
    return {{address, UINT64_MAX - address, reinterpret_cast<std::byte*>(address)},
            std::shared_ptr<const void>(std::shared_ptr<const void>(), this)};
  }
  bool put(node_id /*peer*/, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
           time_point /*deadline*/) noexcept override {
    if (!works) return false;
    std::memcpy(reinterpret_cast<std::byte*>(to), from, bytes);
    return true;
  }
  bool get(node_id /*peer*/, std::uint64_t from, std::byte* to, std::uint64_t bytes,
           time_point /*deadline*/) noexcept override {
    if (!works) return false;
    std::memcpy(to, reinterpret_cast<const std::byte*>(from), bytes);
    return true;
  }

  bool maps = true;
  bool works = true;
};

/// Counts calls of its functions.
class fake_driver final : public lane_driver {
 public:
  void progress() noexcept override { ++progressed; }
  void arm() noexcept override { ++armed; }
  int progressed = 0;
  int armed = 0;
};

/// Returns lane ends that the test has made, and notes which of them are closed.
class fake_transport : public transport {
 public:
  [[nodiscard]] std::string_view scheme() const noexcept override { return "fake"; }
  [[nodiscard]] transport_traits traits() const noexcept override { return {}; }
  void describe(card& /*mine*/) const override {}
  [[nodiscard]] reachability reachability_of(const card& /*peer*/) const override {
    return {true, 1, "fake"};
  }

  [[nodiscard]] endpoint open(node_id peer, const lane_shape& shape) override {
    if (opened.size() - closed.size() >= max_open)
      throw no_lane_left(node_text(peer) + " has no lane left", peer);
    opened.push_back(std::make_unique<ring_pair>());
    endpoint c = opened.back()->opener();
    c.peer = peer;
    c.worker = shape.worker;
    c.own_worker = shape.own_worker;
    c.driver = lanes_driver;
    c.id = next_id_++;
    return c;
  }

  [[nodiscard]] const std::atomic<std::uint32_t>& arrivals() const noexcept override {
    return arrivals_;
  }
  [[nodiscard]] std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    if (arriving_.empty()) return std::nullopt;
    const endpoint c = arriving_.front();
    arriving_.pop_front();
    return c;
  }
  [[nodiscard]] bool is_closed(const endpoint& accepted) const noexcept override {
    return std::find(ended.begin(), ended.end(), accepted.id) != ended.end();
  }
  void close(const endpoint& end) noexcept override { closed.push_back(end.id); }
  void forget(node_id peer) noexcept override { forgotten.push_back(peer); }
  [[nodiscard]] farcall::rma_engine* rma_engine() noexcept override { return &memory; }

  /// Lets a peer open a lane to this node. Returns the lane's id.
  std::uint64_t arrive(const endpoint& c) {
    const std::lock_guard guard(mutex_);
    arriving_.push_back(c);
    arriving_.back().id = next_id_++;
    arrivals_.fetch_add(1, std::memory_order_release);
    return arriving_.back().id;
  }

  fake_rma_engine memory;
  std::size_t max_open = SIZE_MAX;     ///< most lanes open at a time
  lane_driver* lanes_driver = nullptr; ///< driver of lanes that are opened
  std::vector<std::unique_ptr<ring_pair>> opened;
  std::vector<std::uint64_t> ended;  ///< accepted lanes that their openers have closed
  std::vector<std::uint64_t> closed; ///< arguments of close()
  std::vector<node_id> forgotten;

 private:
  std::mutex mutex_;
  std::deque<endpoint> arriving_;
  std::atomic<std::uint32_t> arrivals_{0};
  std::uint64_t next_id_ = 1;
};

/// An engine of two nodes, itself and a peer that the test plays. Runs no threads by itself.
class idle_engine {
 public:
  explicit idle_engine(std::vector<am::handler_function> handlers = {},
                       const call_context* context = nullptr)
      : doorbells_(std::make_unique<doorbell[]>(doorbell_count)) {
    am::engine_options o;
    o.nodes = 2;
    o.handlers = std::move(handlers);
    o.context = context;
    o.doorbells = {doorbells_.get(), doorbell_count};
    o.heap = std::make_shared<shared_heap>(segment::create("idle-engine", std::size_t{64} << 20),
                                           segment{});
    engine_ = std::make_shared<am::engine>(std::move(o));
    engine_->peers().set_route(peer_id, via, 1);
    engine_->acceptor().listen(via);
  }
  idle_engine(const idle_engine&) = delete;
  idle_engine& operator=(const idle_engine&) = delete;
  ~idle_engine() { engine_->shut_down("the test is over"); }

  am::engine* operator->() const noexcept { return engine_.get(); }
  am::engine& operator*() const noexcept { return *engine_; }
  [[nodiscard]] doorbell& doorbell_of(std::size_t index) const noexcept {
    return doorbells_[index];
  }

  static constexpr std::size_t doorbell_count = 64;
  fake_transport via;

 private:
  std::unique_ptr<doorbell[]> doorbells_;
  std::shared_ptr<am::engine> engine_;
};

} // namespace farcall::test
