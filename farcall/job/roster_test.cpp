// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/roster.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace farcall::roster_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Reaches the nodes that a test names, and records the nodes that it admits.
class fake_transport final : public transport {
 public:
  fake_transport(std::string_view scheme, std::map<node_id, unsigned> costs)
      : scheme_(scheme), costs_(std::move(costs)) {}

  std::string_view scheme() const noexcept override { return scheme_; }
  transport_traits traits() const noexcept override { return {}; }
  void describe(card& /*mine*/) const override {}
  reachability reachability_of(const card& peer) const override {
    const auto at = costs_.find(peer.id);
    if (at == costs_.end()) return {false, 0, "too far away"};
    return {true, at->second, "by " + std::string(scheme_)};
  }
  void admit(const card& peer) override { admitted.push_back(peer.id); }
  endpoint open(node_id /*peer*/, const lane_shape& /*shape*/) override { return {}; }
  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }
  std::optional<endpoint> accept() override { return std::nullopt; }
  bool is_closed(const endpoint& /*accepted*/) const noexcept override { return true; }
  void close(const endpoint& /*end*/) noexcept override {}
  void forget(node_id /*peer*/) noexcept override {}

  std::vector<node_id> admitted;

 private:
  std::string_view scheme_;
  std::map<node_id, unsigned> costs_;
  std::atomic<std::uint32_t> arrivals_{0};
};

card card_of(node_id id) {
  card c;
  c.id = id;
  c.name = "number " + std::to_string(id);
  return c;
}

roster full_roster(std::size_t nodes) {
  roster r(0, nodes);
  for (node_id id = 0; id < nodes; ++id)
    r.add(card_of(id));
  return r;
}

TEST(roster, nodes_are_absent_until_their_cards_come) {
  roster r(1, 3);
  EXPECT_EQ(r.self(), 1U);
  EXPECT_EQ(r.size(), 3U);
  EXPECT_EQ(r.state_of(2), node_state::absent);
  r.add(card_of(2));
  EXPECT_EQ(r.state_of(2), node_state::joined);
  EXPECT_EQ(r.card_of(2).name, "number 2");
  EXPECT_EQ(r.state_of(1), node_state::absent);
}

TEST(roster, the_card_of_a_missing_node_is_refused) {
  roster r(0, 2);
  EXPECT_THROW(r.add(card_of(2)), malformed_message);
  EXPECT_THROW(r.add(card_of(no_node)), malformed_message);
}

TEST(roster, a_node_fails_once_and_stays_failed) {
  roster r = full_roster(2);
  EXPECT_FALSE(r.has_failed(1));
  EXPECT_TRUE(r.fail(1));
  EXPECT_FALSE(r.fail(1));
  r.add(card_of(1));
  EXPECT_TRUE(r.has_failed(1));
  EXPECT_FALSE(r.has_failed(0));
}

TEST(roster, the_cheapest_transport_is_chosen_and_admits_the_node) {
  roster r = full_roster(3);
  fake_transport near("near", {{1, 10}});
  fake_transport far("far", {{0, 5}, {1, 100}, {2, 100}});
  transport* const all[] = {&far, &near};
  r.choose_routes(all);
  EXPECT_EQ(r.route_to(1).via, &near);
  EXPECT_EQ(r.route_to(1).reason, "by near");
  EXPECT_EQ(r.route_to(2).via, &far);
  EXPECT_THAT(near.admitted, ElementsAre(1));
  EXPECT_THAT(far.admitted, ElementsAre(0, 2));
}

TEST(roster, a_job_that_ends_has_no_route) {
  const route none = roster::choose(card_of(1), {});
  EXPECT_EQ(none.via, nullptr);
  EXPECT_THAT(none.reason, HasSubstr("job ends"));
}

TEST(roster, a_node_is_known_after_its_route_was_reported) {
  roster r(0, 3, 8);
  r.add(card_of(0));
  fake_transport near("near", {{0, 1}, {1, 10}, {5, 10}});
  transport* const all[] = {&near};
  r.choose_routes(all);
  EXPECT_TRUE(r.knows(0));
  r.add(card_of(5));
  EXPECT_FALSE(r.knows(5));
  unsigned told = 0;
  r.choose_routes(all, [&](const card& c, const route& route) {
    ++told;
    EXPECT_EQ(c.id, 5U);
    EXPECT_EQ(route.via, &near);
    EXPECT_FALSE(r.knows(5));
  });
  EXPECT_EQ(told, 1U);
  EXPECT_TRUE(r.knows(5));
  EXPECT_FALSE(r.knows(1));
  EXPECT_FALSE(r.knows(no_node));
  EXPECT_THAT(near.admitted, ElementsAre(0, 5));
}

TEST(roster, grows_up_to_its_capacity) {
  roster r(0, 3, 8);
  EXPECT_EQ(r.capacity(), 8U);
  r.grow(6);
  r.grow(5);
  EXPECT_EQ(r.size(), 6U);
  r.grow(100);
  EXPECT_EQ(r.size(), 8U);
  EXPECT_THROW(r.add(card_of(8)), malformed_message);
}

// ---- nodes that have had a place one after the other --------------------------------------------

TEST(roster, a_later_node_of_a_place_is_another_node) {
  roster r = full_roster(3);
  fake_transport near("near", {{0, 1}, {1, 1}, {2, 1}, {successor_of(2), 7}});
  transport* const all[] = {&near};
  r.choose_routes(all);
  r.fail(2);
  const card& former = r.card_of(2);
  r.add(card_of(successor_of(2)));
  r.choose_routes(all);
  EXPECT_EQ(r.size(), 3U);
  EXPECT_EQ(r.state_of(successor_of(2)), node_state::joined);
  EXPECT_EQ(r.state_of(2), node_state::failed);
  EXPECT_EQ(&r.card_of(2), &former);
  EXPECT_EQ(former.name, "number 2");
  EXPECT_EQ(r.card_of(successor_of(2)).id, successor_of(2));
  EXPECT_THAT(near.admitted, ElementsAre(0, 1, 2, successor_of(2)));
  EXPECT_THAT(r.known(), ElementsAre(0, 1, successor_of(2)));
  EXPECT_EQ(r.latest_at_place_of(2), successor_of(2));
}

TEST(roster, a_late_failure_of_a_former_node_is_ignored) {
  roster r = full_roster(3);
  r.add(card_of(successor_of(2)));
  EXPECT_TRUE(r.has_failed(2)) << "its place is taken";
  EXPECT_FALSE(r.fail(2)) << "that is known";
  EXPECT_EQ(r.state_of(successor_of(2)), node_state::joined);
  EXPECT_TRUE(r.fail(successor_of(2)));
  EXPECT_EQ(r.state_of(successor_of(successor_of(2))), node_state::absent);
}

TEST(roster, counts_the_nodes_that_live) {
  roster r = full_roster(3);
  EXPECT_EQ(r.live(), 3U);
  r.fail(2);
  r.fail(2);
  EXPECT_EQ(r.live(), 2U);
  r.add(card_of(successor_of(2)));
  r.add(card_of(successor_of(2)));
  EXPECT_EQ(r.live(), 3U);
}

TEST(roster, numbers_behind_the_last_epoch_are_refused) {
  roster r = full_roster(3);
  const node_id last = 1 + last_node_epoch * max_node_places;
  r.add(card_of(last));
  EXPECT_EQ(r.state_of(last), node_state::joined);
  EXPECT_THROW(r.add(card_of(successor_of(last))), malformed_message);
  EXPECT_THROW(r.fail(successor_of(last)), malformed_message);
  EXPECT_FALSE(r.can_exist(no_node));
  EXPECT_FALSE(r.can_exist(3));
}

TEST(roster, the_first_of_equal_transports_is_chosen) {
  roster r = full_roster(1);
  fake_transport first("first", {{0, 7}});
  fake_transport second("second", {{0, 7}});
  transport* const all[] = {&first, &second};
  r.choose_routes(all);
  EXPECT_EQ(r.route_to(0).via, &first);
  EXPECT_THAT(second.admitted, IsEmpty());
}

TEST(roster, an_unreachable_node_has_each_transports_reason) {
  roster r = full_roster(1);
  fake_transport first("first", {});
  fake_transport second("second", {});
  transport* const all[] = {&first, &second};
  r.choose_routes(all);
  EXPECT_EQ(r.route_to(0).via, nullptr);
  EXPECT_THAT(r.route_to(0).reason,
              AllOf(HasSubstr("first: too far away"), HasSubstr("second: too far away")));
}

TEST(roster, a_node_in_another_process_names_its_owner) {
  roster r(2, 4);
  card hosted = card_of(3);
  hosted.owner = host_id;
  r.add(hosted);
  fake_transport none("none", {});
  transport* const all[] = {&none};
  r.choose_routes(all);
  EXPECT_EQ(r.route_to(3).via, nullptr);
  EXPECT_THAT(r.route_to(3).reason, HasSubstr("the host (node 0)"));
}

} // namespace
} // namespace farcall::roster_test
