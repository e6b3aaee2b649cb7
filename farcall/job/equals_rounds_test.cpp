// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/equals_rounds.hpp>

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace farcall::equals_rounds_test {
namespace {

using outcome = equals_rounds::outcome;

TEST(equals_rounds, a_round_is_open_until_all_nodes_are_quiet) {
  equals_rounds rounds(3);
  EXPECT_EQ(rounds.round(), 1U);
  EXPECT_EQ(rounds.end_round(), outcome::open);
  rounds.note_quiet(2, 1, false);
  rounds.note_quiet(0, 1, true);
  EXPECT_EQ(rounds.end_round(), outcome::open);
  rounds.note_quiet(1, 1, false);
  EXPECT_EQ(rounds.end_round(), outcome::next_round);
  EXPECT_EQ(rounds.round(), 2U);
  EXPECT_EQ(rounds.end_round(), outcome::open);
}

TEST(equals_rounds, the_job_is_over_once_no_node_was_active) {
  equals_rounds rounds(2);
  rounds.note_quiet(0, 1, false);
  rounds.note_quiet(1, 1, false);
  EXPECT_EQ(rounds.end_round(), outcome::job_over);
  EXPECT_EQ(rounds.round(), 1U);
  rounds.note_quiet(0, 1, false);
  rounds.note_quiet(1, 1, false);
  EXPECT_EQ(rounds.end_round(), outcome::open);
}

TEST(equals_rounds, activity_counts_in_one_round_only) {
  equals_rounds rounds(2);
  rounds.note_quiet(0, 1, true);
  rounds.note_quiet(1, 1, true);
  EXPECT_EQ(rounds.end_round(), outcome::next_round);
  rounds.note_quiet(0, 2, false);
  rounds.note_quiet(1, 2, false);
  EXPECT_EQ(rounds.end_round(), outcome::job_over);
}

TEST(equals_rounds, the_last_report_of_a_node_counts) {
  equals_rounds rounds(2);
  rounds.note_quiet(1, 1, true);
  rounds.note_quiet(1, 1, false);
  rounds.note_quiet(0, 1, false);
  EXPECT_EQ(rounds.end_round(), outcome::job_over);
}

TEST(equals_rounds, a_node_in_another_round_is_refused) {
  equals_rounds rounds(2);
  EXPECT_THROW(rounds.note_quiet(1, 0, false), malformed_message);
  EXPECT_THROW(rounds.note_quiet(1, 2, false), malformed_message);
}

TEST(equals_rounds, end_without_nodes_that_have_left) {
  equals_rounds rounds(3);
  rounds.note_quiet(0, 1, false);
  rounds.note_quiet(1, 1, true);
  rounds.leave(2);
  rounds.leave(2);
  EXPECT_EQ(rounds.end_round(), outcome::next_round);
  rounds.note_quiet(0, 2, false);
  rounds.note_quiet(1, 2, true);
  rounds.leave(1);
  EXPECT_EQ(rounds.end_round(), outcome::job_over);
}

TEST(equals_rounds, a_node_that_has_left_is_ignored) {
  equals_rounds rounds(2);
  rounds.leave(1);
  rounds.note_quiet(1, 1, true);
  EXPECT_EQ(rounds.end_round(), outcome::open);
  rounds.note_quiet(0, 1, false);
  EXPECT_EQ(rounds.end_round(), outcome::job_over);
}

/// Compares the rounds with a simple model: flags of each node.
TEST(equals_rounds, random_sequences_match_a_simple_model) {
  struct node_flags {
    bool is_quiet = false;
    bool was_active = false;
    bool has_left = false;
  };
  constexpr node_id nodes = 4;
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 dice(seed);
    const auto below = [&](unsigned bound) {
      return std::uniform_int_distribution<unsigned>(0, bound - 1)(dice);
    };
    equals_rounds rounds(nodes);
    std::vector<node_flags> flags(nodes);
    bool is_over = false;
    for (int i = 0; i < 100 && !is_over; ++i) {
      const node_id node = below(nodes);
      if (node != host_id && below(30) == 0) {
        rounds.leave(node);
        flags[node].has_left = true;
      } else {
        const bool was_active = below(8) == 0;
        rounds.note_quiet(node, rounds.round(), was_active);
        flags[node].is_quiet = true;
        flags[node].was_active = was_active;
      }
      outcome expected = outcome::job_over;
      for (const node_flags& f : flags) {
        if (f.has_left) continue;
        if (!f.is_quiet) {
          expected = outcome::open;
          break;
        }
        if (f.was_active) expected = outcome::next_round;
      }
      ASSERT_EQ(rounds.end_round(), expected);
      is_over = expected == outcome::job_over;
      if (expected == outcome::next_round) {
        for (node_flags& f : flags)
          f.is_quiet = false;
      }
    }
  }
}

} // namespace
} // namespace farcall::equals_rounds_test
