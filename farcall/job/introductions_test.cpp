// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/introductions.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farcall::introductions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr node_id asker = 1;
constexpr node_id other = 2;

constexpr introduction to_other{other, asker, false, true};
constexpr introduction to_asker{asker, other, true, true};
constexpr introduction confirmation_to_other{other, asker, true, false};

TEST(introductions, the_other_node_is_told_before_the_asker) {
  introductions all;
  EXPECT_EQ(all.state_of(asker, other), peer_state::unknown);
  EXPECT_THAT(all.ask(asker, other), Optional(to_other));
  EXPECT_EQ(all.state_of(asker, other), peer_state::waiting);
  EXPECT_EQ(all.state_of(other, asker), peer_state::told_first);
  EXPECT_THAT(all.confirm(other, asker), Optional(to_asker));
  EXPECT_EQ(all.state_of(asker, other), peer_state::told_second);
  EXPECT_EQ(all.state_of(other, asker), peer_state::known);
  EXPECT_THAT(all.confirm(asker, other), Optional(confirmation_to_other));
  EXPECT_EQ(all.state_of(asker, other), peer_state::known);
}

TEST(introductions, known_peers_that_ask_need_no_message) {
  introductions all;
  (void)all.ask(asker, other);
  (void)all.confirm(other, asker);
  (void)all.confirm(asker, other);
  EXPECT_EQ(all.ask(asker, other), std::nullopt);
  EXPECT_EQ(all.ask(other, asker), std::nullopt);
}

TEST(introductions, a_repeated_question_repeats_the_first_message) {
  introductions all;
  (void)all.ask(asker, other);
  EXPECT_THAT(all.ask(asker, other), Optional(to_other));
  EXPECT_EQ(all.state_of(other, asker), peer_state::told_first);
}

TEST(introductions, the_other_node_may_ask_meanwhile) {
  introductions all;
  (void)all.ask(asker, other);
  EXPECT_EQ(all.ask(other, asker), std::nullopt);
  (void)all.confirm(other, asker);
  // The message to the asker may have been lost.
  EXPECT_THAT(all.ask(other, asker), Optional(to_asker));
}

TEST(introductions, a_confirmation_counts_once) {
  introductions all;
  EXPECT_EQ(all.confirm(other, asker), std::nullopt);
  (void)all.ask(asker, other);
  EXPECT_EQ(all.confirm(asker, other), std::nullopt);
  (void)all.confirm(other, asker);
  EXPECT_EQ(all.confirm(other, asker), std::nullopt);
  (void)all.confirm(asker, other);
  EXPECT_EQ(all.confirm(asker, other), std::nullopt);
}

TEST(introductions, a_node_without_a_process_confirms_nothing) {
  introductions all;
  EXPECT_THAT(all.ask_for_hosted(asker, other), Optional(to_asker));
  EXPECT_EQ(all.ask_for_hosted(asker, other), std::nullopt);
  EXPECT_EQ(all.confirm(asker, other), std::nullopt);
  EXPECT_THAT(all.forget(other), ElementsAre(asker));
}

TEST(introductions, a_forgotten_node_leaves_its_known_peers) {
  introductions all;
  (void)all.ask(3, 2);
  (void)all.ask(2, 1);
  (void)all.ask(1, 3);
  EXPECT_THAT(all.forget(2), ElementsAre(1, 3));
  EXPECT_THAT(all.forget(2), IsEmpty());
  EXPECT_EQ(all.confirm(1, 2), std::nullopt);
  EXPECT_EQ(all.confirm(2, 3), std::nullopt);
  EXPECT_THAT(all.forget(3), ElementsAre(1));
}

// ---- random sequences ---------------------------------------------------------------------------

/// A host and targets that exchange messages; random numbers choose the target that is read next.
class world {
 public:
  /// With `are_messages_lost`, each fourth message of a target is lost, as if the host did not
  /// read.
  world(unsigned seed, bool are_messages_lost)
      : dice_(seed), are_messages_lost_(are_messages_lost) {}

  void step() {
    const node_id node = below(nodes);
    switch (below(8)) {
    case 0:
      ask(node, below(nodes));
      break;
    case 1:
    case 2:
    case 3:
      read_at_host(node);
      break;
    case 4:
      if (below(40) == 0) fail(node);
      break;
    default:
      read_at(node);
      break;
    }
  }

  /// Has all targets ask again for nodes that they do not know; reads all messages and loses none.
  void ask_again() {
    are_messages_lost_ = false;
    for (const auto& [node, wanted] : std::set(asked_))
      ask(node, wanted);
    settle();
  }

  /// Has each node that was asked for ask for the asker.
  void ask_back() {
    for (const auto& [node, wanted] : std::set(asked_))
      ask(wanted, node);
    settle();
  }

  /// Reads all messages.
  void settle() {
    for (bool has_read = true; has_read;) {
      has_read = false;
      for (node_id node = 0; node < nodes; ++node) {
        while (read_at_host(node))
          has_read = true;
        while (read_at(node))
          has_read = true;
      }
    }
  }

  void expect_that_askers_know() const {
    for (const auto& [node, wanted] : asked_) {
      if (targets_[node].has_failed || targets_[wanted].has_failed) continue;
      EXPECT_TRUE(targets_[node].known.contains(wanted)) << node << " has asked for " << wanted;
    }
  }

  void expect_that_askers_are_known() const {
    for (const auto& [node, wanted] : asked_) {
      if (targets_[node].has_failed || targets_[wanted].has_failed) continue;
      EXPECT_TRUE(targets_[wanted].known.contains(node)) << node << " has asked for " << wanted;
    }
  }

 private:
  static constexpr node_id nodes = 5;

  struct question {
    bool confirms; ///< otherwise asks
    node_id about;
  };
  struct target {
    std::deque<introduction> inbox;
    std::deque<question> outbox;
    std::set<node_id> has_card; ///< nodes whose card it has, and whose lanes it serves
    std::set<node_id> known;    ///< nodes to which it opens lanes
    bool has_failed = false;
  };

  node_id below(node_id bound) {
    return std::uniform_int_distribution<node_id>(0, bound - 1)(dice_);
  }

  void ask(node_id node, node_id wanted) {
    target& t = targets_[node];
    if (node == wanted || t.has_failed || t.known.contains(wanted)) return;
    say(t, {false, wanted});
    asked_.emplace(node, wanted);
  }

  bool read_at(node_id node) {
    target& t = targets_[node];
    if (t.has_failed || t.inbox.empty()) return false;
    const introduction read = t.inbox.front();
    t.inbox.pop_front();
    t.has_card.insert(read.of);
    if (read.knows_receiver && t.known.insert(read.of).second) {
      EXPECT_TRUE(targets_[read.of].has_card.contains(node))
          << node << " opens lanes to " << read.of << ", which does not serve them";
    }
    say(t, {true, read.of});
    return true;
  }

  void say(target& from, question said) {
    if (!are_messages_lost_ || below(4) != 0) from.outbox.push_back(said);
  }

  bool read_at_host(node_id node) {
    target& t = targets_[node];
    if (t.has_failed || t.outbox.empty()) return false;
    const question read = t.outbox.front();
    t.outbox.pop_front();
    // The host replies to this question itself.
    if (!read.confirms && targets_[read.about].has_failed) return true;
    const auto next = read.confirms ? all_.confirm(node, read.about) : all_.ask(node, read.about);
    if (next) send(*next);
    return true;
  }

  void send(const introduction& next) {
    EXPECT_FALSE(targets_[next.to].has_failed);
    EXPECT_FALSE(targets_[next.of].has_failed);
    told_.emplace(next.to, next.of);
    targets_[next.to].inbox.push_back(next);
  }

  void fail(node_id node) {
    target& failed = targets_[node];
    if (failed.has_failed) return;
    failed.has_failed = true;
    const std::vector<node_id> peers = all_.forget(node);
    const std::set<node_id> told(peers.begin(), peers.end());
    for (node_id to = 0; to < nodes; ++to) {
      EXPECT_TRUE(targets_[to].has_failed || !told_.contains({to, node}) || told.contains(to))
          << to << " is not told of the end of " << node;
    }
  }

  std::mt19937 dice_;
  bool are_messages_lost_;
  introductions all_;
  target targets_[nodes];
  std::set<std::pair<node_id, node_id>> asked_;
  std::set<std::pair<node_id, node_id>> told_; ///< receivers of cards, and owners of these cards
};

TEST(introductions, random_sequences_end_with_nodes_that_know_each_other) {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    world w(seed, false);
    for (int i = 0; i < 200; ++i)
      w.step();
    w.settle();
    w.expect_that_askers_know();
    w.expect_that_askers_are_known();
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(introductions, lost_messages_of_targets_are_made_up_for) {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    world w(seed, true);
    for (int i = 0; i < 200; ++i)
      w.step();
    w.ask_again();
    w.expect_that_askers_know();
    w.ask_back();
    w.expect_that_askers_are_known();
    if (::testing::Test::HasFailure()) break;
  }
}

} // namespace
} // namespace farcall::introductions_test
