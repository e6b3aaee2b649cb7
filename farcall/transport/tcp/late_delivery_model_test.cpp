// SPDX-License-Identifier: Apache-2.0

// Explores all interleavings of three parties: a node that makes copies, or calls, one after the
// other; a network that holds sent bytes for any time; and the serving node. A breadth-first
// search, which uses the library's own given_up_serials.

#include <farcall/transport/tcp/given_up_serials.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace farcall::tcp::late_delivery_model_test {
namespace {

constexpr std::uint8_t operations = 3;
constexpr std::uint8_t attempts = 2; ///< of one operation
constexpr std::size_t connections = std::size_t{operations} * attempts;

/// How the nodes treat a lost connection.
struct protocol {
  bool tells = true;        ///< the peer is told, and its reply awaited, before the next step
  bool refuses = true;      ///< the peer refuses later bytes of a connection given up
  bool revokes = true;      ///< the peer drops bytes received before that and not begun
  bool is_reliable = false; ///< messages through the host are not lost
};

/// State of the bytes of a connection, which carries one operation.
enum class place : std::uint8_t {
  nowhere, ///< not sent yet, or discarded
  network, ///< under way, for any time
  ring,    ///< received by the peer, not begun
  begun,
};

/// Messages about a connection, through the host: once sent, they arrive at any time, any number of
/// times.
struct messages {
  bool given_up = false;
  bool refused = false;
  auto operator<=>(const messages&) const = default;
};

struct world {
  std::uint8_t operation = 0; ///< under way
  std::uint8_t attempt = 0;
  bool is_lost = false; ///< its connection is lost for the maker
  std::array<place, connections> carried{};
  std::array<messages, connections> said{};
  given_up_serials given_up; ///< known to the peer
  std::uint8_t last_begun = 0;
  std::uint8_t settled = 0; ///< operations that have ended for the maker, with success or failure
  bool is_wrong = false;
  auto operator<=>(const world&) const = default;

  [[nodiscard]] std::size_t current() const { return std::size_t{operation} * attempts + attempt; }
};

std::uint64_t serial_of(std::size_t connection) { return connection + 1; }
std::uint8_t operation_of(std::size_t connection) {
  return static_cast<std::uint8_t>(connection / attempts);
}

class model {
 public:
  explicit model(protocol p) : protocol_(p) {}

  [[nodiscard]] std::vector<world> steps(const world& from) const {
    std::vector<world> all;
    maker_steps(from, all);
    for (std::size_t c = 0; c < connections; ++c) {
      network_steps(from, c, all);
      server_steps(from, c, all);
    }
    return all;
  }

 private:
  static world moved(const world& from, std::size_t connection, place to) {
    world w = from;
    w.carried.at(connection) = to;
    return w;
  }

  void maker_steps(const world& from, std::vector<world>& all) const {
    if (from.operation == operations) return;
    const std::size_t c = from.current();
    if (from.carried.at(c) == place::nowhere && !from.is_lost) {
      all.push_back(moved(from, c, place::network));
      return;
    }
    if (!from.is_lost) {
      // The reply arrives.
      if (from.carried.at(c) == place::begun) all.push_back(next_operation(from));
      // A connection may be lost at any time.
      world lost = from;
      lost.is_lost = true;
      lost.said.at(c).given_up = protocol_.tells;
      all.push_back(lost);
      return;
    }
    if (protocol_.tells && !from.said.at(c).refused) return;
    // Either repeat the operation, like a put, or fail it, like a call.
    if (from.attempt + 1 < attempts) {
      world w = from;
      ++w.attempt;
      w.is_lost = false;
      all.push_back(w);
    }
    all.push_back(next_operation(from));
  }

  static world next_operation(const world& from) {
    world w = from;
    ++w.operation;
    w.settled = w.operation;
    w.attempt = 0;
    w.is_lost = false;
    return w;
  }

  void network_steps(const world& from, std::size_t c, std::vector<world>& all) const {
    if (from.carried.at(c) == place::network) {
      const bool is_refused = protocol_.refuses && from.given_up.has(serial_of(c));
      all.push_back(moved(from, c, is_refused ? place::nowhere : place::ring));
    }
  }

  void server_steps(const world& from, std::size_t c, std::vector<world>& all) const {
    if (from.carried.at(c) == place::ring) {
      world w = moved(from, c, place::begun);
      const std::uint8_t which = operation_of(c);
      // The operation begins after a later one, or after its own failure.
      w.is_wrong = which < from.last_begun || which < from.settled;
      w.last_begun = std::max(from.last_begun, which);
      all.push_back(w);
    }
    if (from.said.at(c).given_up) {
      world w = from;
      w.said.at(c).refused = true;
      w.given_up.add(serial_of(c));
      if (protocol_.revokes && w.carried.at(c) == place::ring) w.carried.at(c) = place::nowhere;
      all.push_back(w);
    }
  }

  protocol protocol_;
};

struct walk {
  std::size_t states = 0;
  bool is_wrong = false; ///< an operation began too late
  bool has_end = false;  ///< some state has all operations ended
};

walk walk_through(const model& m) {
  walk found;
  std::set<world> known{world{}};
  std::deque<world> todo{world{}};
  while (!todo.empty()) {
    const world from = todo.front();
    todo.pop_front();
    ++found.states;
    found.has_end = found.has_end || from.operation == operations;
    if (from.is_wrong) {
      found.is_wrong = true;
      continue;
    }
    for (const world& to : m.steps(from)) {
      if (known.insert(to).second) todo.push_back(to);
    }
  }
  return found;
}

TEST(late_delivery_model, each_operation_begins_in_order_or_never) {
  const walk w = walk_through(model({}));
  EXPECT_FALSE(w.is_wrong);
  EXPECT_TRUE(w.has_end);
  EXPECT_GT(w.states, 1000U);
}

TEST(late_delivery_model, each_part_is_needed) {
  EXPECT_TRUE(walk_through(model({.tells = false})).is_wrong);
  EXPECT_TRUE(walk_through(model({.refuses = false})).is_wrong);
  EXPECT_TRUE(walk_through(model({.revokes = false})).is_wrong);
}

} // namespace
} // namespace farcall::tcp::late_delivery_model_test
