// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport.hpp>
#include <tests/ring_support.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// One suite of tests that every transport must pass. A backend defines how to make two of its
/// nodes, and instantiates the suite in its own test file:
///
///   INSTANTIATE_TEST_SUITE_P(shm, transport_conformance,
///                            ::testing::Values(backend{.place = "threads", .make = &shm_pair}));
///
/// Tests skip capabilities that a backend lacks; tests/expected_skips.txt lists these skips.
namespace farcall::conformance {

/// Bytes of a node's memory window.
inline constexpr std::size_t window_bytes = std::size_t{16} << 20;

/// A node of a backend, made in the thread or process that runs it.
class node_end {
 public:
  virtual ~node_end() = default;
  [[nodiscard]] virtual node_id id() const = 0;
  [[nodiscard]] virtual transport& link() = 0;
  /// Returns this node's doorbells, at least 8.
  [[nodiscard]] virtual std::span<doorbell> doorbells() = 0;
  // Overridden by backends that must not make link() before the other node's process is forked.
  [[nodiscard]] virtual bool has_rma_engine() { return link().rma_engine() != nullptr; }
  [[nodiscard]] virtual bool shares_memory() { return link().traits().shares_memory; }
  /// Returns the memory that the peer may use; empty if there is none.
  [[nodiscard]] virtual std::span<std::byte> window() { return {}; }
  /// Makes the peer known to this node. Called before the first lane.
  virtual void meet(const card& /*peer*/) {}
};

/// Makes the two nodes of a test, and has the resources that they share.
class node_pair {
 public:
  virtual ~node_pair() = default;
  /// Makes node 0 or 1 of the pair. Node 1 can be made again after its end, also without close().
  [[nodiscard]] virtual std::unique_ptr<node_end> make_end(unsigned side) = 0;
  /// Gives node 1 a number that no earlier node had, if the transport refuses lanes of nodes that
  /// have failed.
  virtual void replace_node_1() {}
};

struct backend {
  const char* place = "threads"; ///< "threads" or "processes": what node 1 is
  std::unique_ptr<node_pair> (*make)(std::uint32_t ring_bytes) = nullptr;
  std::uint32_t max_lanes = 0;     ///< lanes from one node to another; 0 if there is no limit
  std::uint32_t many_lanes = 1000; ///< lanes to open if there is no limit
  std::uint64_t wake_ups = 20'000; ///< rounds of the wake-up test; fewer if each is slow
  bool comes_back = true;          ///< node 1 may be made again after its end
};

/// Names the suite's instances for ctest. GoogleTest requires this function's name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(const backend& b, std::ostream* os) { *os << b.place; }

/// One of the two nodes in a test. Members throw, which fails the test, if a wait takes too long or
/// the other side has ended.
class side {
 public:
  /// `talk` is a socket to the other side, independent of the transport.
  side(node_end& own, unique_fd talk);

  /// Exchanges the cards. Must be called first.
  void meet();

  [[nodiscard]] transport& link() { return own_.link(); }
  [[nodiscard]] node_id id() const { return own_.id(); }
  [[nodiscard]] node_id peer() const { return peer_.id; }
  [[nodiscard]] const card& peer_card() const { return peer_; }
  [[nodiscard]] card own_card();
  [[nodiscard]] doorbell& own_doorbell(std::uint32_t index) { return own_.doorbells()[index]; }
  [[nodiscard]] std::span<std::byte> window() { return own_.window(); }

  /// Sends a number to the other side, and receives one from it, through the socket.
  void tell(std::uint64_t number);
  [[nodiscard]] std::uint64_t receive_number();
  /// Waits until the other side has called step() as well.
  void step();

  /// Waits until done() is true, and calls the transport's progress() meanwhile.
  template <class Condition>
  void wait(Condition done, const char* what) {
    const auto moved_and_done = [&] {
      link().progress();
      return done();
    };
    if (!test::eventually(moved_and_done)) throw std::runtime_error(std::string("no ") + what);
  }

  [[nodiscard]] endpoint open(const lane_shape& shape = {}) { return link().open(peer(), shape); }
  /// Waits for a lane from the other side, and accepts it.
  [[nodiscard]] endpoint accept();
  /// Waits until the opener has closed the lane, and closes it here.
  void accept_end(const endpoint& accepted);

  /// Waits for space, and sends record number `n`.
  void send(endpoint& c, std::uint32_t bytes, std::uint64_t n);
  /// Waits for a record, which must be number `n`.
  void receive(endpoint& c, std::uint32_t bytes, std::uint64_t n);

 private:
  void tell_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> receive_bytes();

  node_end& own_;
  unique_fd talk_;
  card peer_;
};

class transport_conformance : public ::testing::TestWithParam<backend> {
 protected:
  using body = std::function<void(side&)>;

  /// Makes the pair, with rings of this size. Must be called before run().
  void make_pair(std::uint32_t ring_bytes = min_ring);
  void replace_node_1() { pair_->replace_node_1(); }

  /// Runs `here` on node 0, in this thread, and `there` on node 1, in a new thread or process. Node
  /// 1 ends with its body, and leaves its lanes open; node 0 stays.
  void run(const body& here, const body& there);

  [[nodiscard]] node_end& node_0() { return *end_0_; }

 private:
  std::unique_ptr<node_pair> pair_;
  std::unique_ptr<node_end> end_0_;
};

/// Returns `n` repetitions, or a tenth of them under a sanitizer.
[[nodiscard]] constexpr std::uint64_t times(std::uint64_t n) noexcept {
  return test::under_sanitizer ? n / 10 : n;
}

} // namespace farcall::conformance
