// SPDX-License-Identifier: Apache-2.0

// Checks the library's ring in every order of the operations of a sender and a receiver.

#include <tests/model/checked_ring.hpp>
#include <tests/model/mutants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace farcall::check {
namespace {

using ::testing::ElementsAre;

using way = checked_ring::way;

/// Sends and receives records of these lengths; the first `before` are sent in advance.
scenario stream(way how, std::uint64_t start, std::vector<std::uint32_t> lengths,
                std::uint32_t before = 0) {
  return [=](execution& run) {
    checked_ring ring(start);
    for (std::uint32_t i = 0; i < before; ++i)
      run.require(ring.send(lengths[i], i), "there is space for that");
    run.thread([&] {
      for (std::uint32_t i = before; i < lengths.size(); ++i) {
        while (!ring.send(lengths[i], i))
          std::this_thread::yield();
      }
    });
    run.thread([&] {
      for (std::uint32_t i = 0; i < lengths.size(); ++i) {
        while (!ring.receive(run, lengths[i], i, how))
          std::this_thread::yield();
      }
    });
    if (!run.join()) return;
    run.require(!peek(ring.in), "a record that was not sent");
  };
}

struct named_scenario {
  const char* name;
  scenario run;
};

std::vector<named_scenario> streams_received(way how) {
  return {
      {"in a line", stream(how, 0, {16, 16, 8})},
      {"from line to line", stream(how, 32, {24, 40, 64})},
      {"up to the end", stream(how, ring_bytes - 48, {16, 32, 16})},
      {"past the end, with a pad", stream(how, 2 * ring_bytes - 32, {64, 16})},
      {"a pad, and then more", stream(how, ring_bytes - 16, {16, 64, 16})},
      {"into a full ring", stream(how, 0, {1024, 1024, 1024, 1024}, 3)},
      {"into a full ring, with a pad", stream(how, 512, {1024, 1024, 1024, 1024}, 3)},
      {"twice into a full ring", stream(how, 0, {1024, 1024, 1000, 1024, 1024}, 3)},
  };
}

const std::vector<named_scenario>& streams() {
  static const std::vector<named_scenario> all = [] {
    std::vector<named_scenario> both = streams_received(way::peek);
    for (const named_scenario& each : streams_received(way::each))
      both.push_back(each);
    return both;
  }();
  return all;
}

TEST(ring_model, every_record_arrives_once_in_order_and_whole) {
  for (const auto& [name, run] : streams()) {
    const outcome o = explore(run);
    EXPECT_TRUE(o.is_complete) << name << ": " << o.wrong;
    EXPECT_GT(o.executions, 10U) << name;
  }
}

// The expected survivors, with the reason why each mutant is harmless. Another survivor would be an
// operation that the ring does not need, or that no scenario tests.
TEST(ring_model, only_harmless_mutants_survive) {
  std::vector<scenario> all;
  for (const auto& [name, run] : streams())
    all.push_back(run);
  EXPECT_THAT(survivors(all),
              ElementsAre(
                  // The line ahead only has to be cleared before the next commit.
                  "commit: store relaxed 2, delayed",
                  // Receivers here do not sleep; doorbell_model tests it.
                  "commit: store release, delayed", "is_armed: load relaxed, omitted",
                  // The space only becomes free later.
                  "receive_each: store release, delayed", "release: store release, delayed",
                  // The pad may become visible after the terminator of the record that follows it.
                  "reserve_slow: store release, delayed"));
}

} // namespace
} // namespace farcall::check
