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

/// What every transport must do, as one suite of tests. A backend says how two of its nodes are
/// made, and instantiates the suite in its own test file:
///
///   INSTANTIATE_TEST_SUITE_P(shm, transport_conformance,
///                            ::testing::Values(backend{.place = "threads", .make = &shm_pair}));
///
/// What a backend cannot do is skipped with a reason; tests/expected_skips.txt lists these skips.
namespace farcall::conformance {

/// Bytes of the memory of a node that others may use.
inline constexpr std::size_t window_bytes = std::size_t{16} << 20;

/// A node as its backend makes it, in the thread or process where it lives.
class node_end {
 public:
  virtual ~node_end() = default;
  [[nodiscard]] virtual node_id id() const = 0;
  [[nodiscard]] virtual transport& link() = 0;
  /// This node's; at least 8.
  [[nodiscard]] virtual std::span<doorbell> doorbells() = 0;
  /// What tests ask before the other node's process is forked, where link() may not be made yet.
  [[nodiscard]] virtual bool has_rma_engine() { return link().rma_engine() != nullptr; }
  [[nodiscard]] virtual bool shares_memory() { return link().traits().shares_memory; }
  /// Memory that the peer may map, or nothing.
  [[nodiscard]] virtual std::span<std::byte> window() { return {}; }
  /// The other node has joined; called once, before the first lane.
  virtual void meet(const card& /*peer*/) {}
};

/// What two nodes need before they are made.
class node_pair {
 public:
  virtual ~node_pair() = default;
  /// Node 0 or 1 of the pair. Node 1 can be made anew when it has gone, as after its death.
  [[nodiscard]] virtual std::unique_ptr<node_end> make_end(unsigned side) = 0;
};

struct backend {
  const char* place = "threads"; ///< or "processes": where node 1 lives
  std::unique_ptr<node_pair> (*make)(std::uint32_t ring_bytes) = nullptr;
  std::uint32_t most_lanes = 0;    ///< that one node can have open to another; 0: no limit
  std::uint32_t many_lanes = 1000; ///< where there is no limit
  std::uint64_t wake_ups = 20'000; ///< in a row; fewer where each takes several system calls
  bool comes_back = true;          ///< node 1 may be made anew when it has gone
};

/// What ctest calls the instances of the suite. GoogleTest chose its name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(const backend& b, std::ostream* os) { *os << b.place; }

/// One of the two nodes, as a test sees it. Members throw when something takes too long or the
/// other side has ended, which fails the test.
class side {
 public:
  /// `talk` leads to the other side, past the transport.
  side(node_end& own, unique_fd talk);

  /// Exchanges the cards. Before anything else.
  void meet();

  [[nodiscard]] transport& link() { return own_.link(); }
  [[nodiscard]] node_id id() const { return own_.id(); }
  [[nodiscard]] node_id peer() const { return peer_.id; }
  [[nodiscard]] const card& peer_card() const { return peer_; }
  [[nodiscard]] card own_card();
  [[nodiscard]] doorbell& own_doorbell(std::uint32_t index) { return own_.doorbells()[index]; }
  [[nodiscard]] std::span<std::byte> window() { return own_.window(); }

  /// A number for the other side, and one from it.
  void tell(std::uint64_t number);
  [[nodiscard]] std::uint64_t hear();
  /// Waits until the other side has come to the same step.
  void step();

  /// Waits, and moves bytes where the transport needs that.
  template <class Condition>
  void wait(Condition done, const char* what) {
    const auto moved_and_done = [&] {
      link().progress();
      return done();
    };
    if (!test::eventually(moved_and_done)) throw std::runtime_error(std::string("no ") + what);
  }

  [[nodiscard]] endpoint open(const lane_shape& shape = {}) { return link().open(peer(), shape); }
  /// The next lane; waits for it.
  [[nodiscard]] endpoint accept();
  /// Waits until the opener has closed, and gives the lane back.
  void accept_end(const endpoint& accepted);

  /// Sends record number `n`; waits for room.
  void send(endpoint& c, std::uint32_t bytes, std::uint64_t n);
  /// Waits for a record, which must be number `n`.
  void receive(endpoint& c, std::uint32_t bytes, std::uint64_t n);

 private:
  void tell_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> hear_bytes();

  node_end& own_;
  unique_fd talk_;
  card peer_;
};

class transport_conformance : public ::testing::TestWithParam<backend> {
 protected:
  using body = std::function<void(side&)>;

  /// Makes the pair, with rings of this size. Call once, first.
  void make_pair(std::uint32_t ring_bytes = smallest_ring);

  /// Runs `here` on node 0, in this thread, and `there` on node 1, in a thread or process of its
  /// own. Node 1 ends with its body, without giving anything back; node 0 lives on.
  void run(const body& here, const body& there);

  [[nodiscard]] node_end& node_0() { return *end_0_; }

 private:
  std::unique_ptr<node_pair> pair_;
  std::unique_ptr<node_end> end_0_;
};

/// Number of repetitions, fewer under a sanitizer.
[[nodiscard]] constexpr std::uint64_t times(std::uint64_t n) noexcept {
  return test::under_sanitizer ? n / 10 : n;
}

} // namespace farcall::conformance
