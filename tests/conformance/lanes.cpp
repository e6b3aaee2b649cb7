// SPDX-License-Identifier: Apache-2.0

// Tests that open, accept and close lanes.

#include <farcall/base/error.hpp>
#include <tests/conformance/conformance.hpp>

#include <gmock/gmock.h>

#include <set>
#include <thread>

namespace farcall::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_P(transport_conformance, describes_itself_consistently) {
  make_pair();
  run(
      [](side& s) {
        EXPECT_FALSE(s.link().scheme().empty());
        EXPECT_EQ(s.link().scheme().find_first_of(":?,&= "), std::string_view::npos)
            << "it stands in URLs";
        const transport_traits traits = s.link().traits();
        EXPECT_GE(traits.max_record, min_ring / 4);
        EXPECT_LE(traits.max_record, farcall::max_record);
        s.link().progress();
        EXPECT_EQ(&s.link().arrivals(), &s.link().arrivals());
        EXPECT_FALSE(s.link().accept()) << "nobody has opened a lane";
        // A second describe() changes nothing.
        card twice = s.own_card();
        s.link().describe(twice);
        EXPECT_EQ(encode(twice), encode(s.own_card()));
      },
      [](side&) {});
}

TEST_P(transport_conformance, reachability_is_symmetric_and_has_a_reason) {
  make_pair();
  const auto reach_peer = [](side& s) {
    const reachability r = s.link().reachability_of(s.peer_card());
    EXPECT_TRUE(r.possible) << r.reason;
    EXPECT_FALSE(r.reason.empty());
    // The other side must come to the same result from the same two cards.
    s.tell(r.cost);
    EXPECT_EQ(s.receive_number(), r.cost);
  };
  run(reach_peer, reach_peer);
}

TEST_P(transport_conformance, a_lane_is_opened_accepted_and_closed) {
  make_pair();
  run(
      [](side& s) {
        s.step();
        endpoint c = s.open({.doorbell = 5, .worker = 3, .own_worker = true});
        EXPECT_EQ(c.peer, s.peer());
        EXPECT_EQ(c.worker, 3U);
        EXPECT_TRUE(c.own_worker);
        EXPECT_FALSE(peek(c.in));
        s.send(c, 64, 1);
        s.receive(c, 64, 2);
        s.step();
        s.link().close(c);
      },
      [](side& s) {
        EXPECT_FALSE(s.link().accept());
        const std::uint32_t before = s.link().arrivals().load();
        s.step();
        s.wait([&] { return s.link().arrivals().load() != before; }, "change of arrivals()");
        endpoint c = s.accept();
        EXPECT_EQ(c.peer, s.peer());
        EXPECT_EQ(c.worker, 3U);
        EXPECT_TRUE(c.own_worker);
        EXPECT_FALSE(s.link().accept()) << "the same lane twice";
        s.receive(c, 64, 1);
        s.send(c, 64, 2);
        EXPECT_FALSE(s.link().is_closed(c));
        s.step();
        s.accept_end(c);
        EXPECT_FALSE(s.link().accept()) << "a closed lane";
      });
}

TEST_P(transport_conformance, opening_does_not_wait_for_the_peer) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open();
        ASSERT_TRUE(test::send(c.out, 64, 1));
        s.link().close(c);
        s.step(); // only now the other side polls
      },
      [](side& s) {
        s.step();
        endpoint c = s.accept();
        EXPECT_FALSE(s.link().is_closed(c)) << "a record is still to be read";
        s.receive(c, 64, 1);
        s.accept_end(c);
      });
}

TEST_P(transport_conformance, both_sides_may_open_lanes) {
  make_pair();
  const auto open_and_accept = [](side& s) {
    endpoint opened = s.open();
    s.send(opened, 100, 1);
    endpoint accepted = s.accept();
    s.receive(accepted, 100, 1);
    s.send(accepted, 200, 2);
    s.receive(opened, 200, 2);
    s.link().close(opened);
    s.accept_end(accepted);
    s.step();
  };
  run(open_and_accept, open_and_accept);
}

TEST_P(transport_conformance, several_lanes_do_not_mix) {
  static constexpr std::uint64_t lanes = 20;
  make_pair();
  run(
      [](side& s) {
        std::vector<endpoint> all;
        std::set<std::uint64_t> ids;
        for (std::uint32_t i = 0; i < lanes; ++i) {
          all.push_back(s.open({.doorbell = i % 4, .worker = i % 2, .own_worker = i % 3 == 0}));
          ids.insert(all.back().id);
          s.send(all.back(), 64, i);
        }
        EXPECT_EQ(ids.size(), lanes);
        for (int round = 0; round < 20; ++round) {
          for (std::uint64_t i = lanes; i-- > 0;)
            s.send(all[i], 80, 1000 * i);
          for (std::uint64_t i = 0; i < lanes; ++i)
            s.receive(all[i], 96, 1000 * i + 1);
        }
        for (const endpoint& c : all)
          s.link().close(c);
      },
      [](side& s) {
        // Lanes arrive in any order; the first record has the lane's number.
        std::vector<endpoint> all(lanes);
        std::set<std::uint64_t> ids;
        for (std::uint64_t i = 0; i < lanes; ++i) {
          endpoint c = s.accept();
          ids.insert(c.id);
          record_view record;
          s.wait([&] { return static_cast<bool>(record = peek(c.in)); }, "first record");
          std::uint64_t which = 0;
          while (which < lanes && !test::wrong_with(record, 64, which).empty())
            ++which;
          ASSERT_LT(which, lanes);
          EXPECT_EQ(c.worker, which % 2);
          EXPECT_EQ(c.own_worker, which % 3 == 0);
          release(c.in, record);
          all[which] = c;
        }
        EXPECT_EQ(ids.size(), lanes);
        for (int round = 0; round < 20; ++round) {
          for (std::uint64_t i = 0; i < lanes; ++i) {
            s.receive(all[i], 80, 1000 * i);
            s.send(all[i], 96, 1000 * i + 1);
          }
        }
        for (const endpoint& c : all)
          s.accept_end(c);
      });
}

TEST_P(transport_conformance, several_threads_open_use_and_close_lanes_at_once) {
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t lanes_each = 10;
  make_pair();
  run(
      [](side& s) {
        const auto work = [&s](std::uint64_t number) {
          try {
            for (std::uint64_t i = 0; i < lanes_each; ++i) {
              endpoint c = s.open({.doorbell = static_cast<std::uint32_t>(number)});
              for (std::uint64_t n = 0; n < times(200); ++n) {
                s.send(c, 120, n);
                s.receive(c, 40, n + 1);
              }
              s.link().close(c);
            }
          } catch (const std::exception& e) {
            ADD_FAILURE() << "thread " << number << ": " << e.what();
          }
        };
        std::vector<std::thread> all;
        for (std::uint64_t t = 0; t < threads; ++t)
          all.emplace_back(work, t);
        for (std::thread& t : all)
          t.join();
      },
      [](side& s) {
        struct served {
          endpoint c;
          std::uint64_t next = 0;
        };
        std::vector<served> open;
        std::uint64_t ended = 0;
        const auto serve = [&] {
          while (const auto c = s.link().accept())
            open.push_back({*c});
          for (std::size_t i = 0; i < open.size();) {
            served& lane = open[i];
            while (const record_view record = peek(lane.c.in)) {
              EXPECT_EQ(test::wrong_with(record, 120, lane.next), "");
              release(lane.c.in, record);
              s.send(lane.c, 40, ++lane.next);
            }
            if (!s.link().is_closed(lane.c)) {
              ++i;
              continue;
            }
            EXPECT_EQ(lane.next, times(200));
            s.link().close(lane.c);
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
            ++ended;
          }
          return ended == threads * lanes_each;
        };
        s.wait(serve, "end of all lanes");
      });
}

TEST_P(transport_conformance, lanes_do_not_leak) {
  make_pair();
  run(
      [](side& s) {
        for (std::uint64_t n = 0; n < times(3000); ++n) {
          endpoint c = s.open();
          s.send(c, 64, n);
          s.receive(c, 64, n + 1);
          s.link().close(c);
          ASSERT_EQ(s.receive_number(), n) << "closed on the other side too";
        }
      },
      [](side& s) {
        for (std::uint64_t n = 0; n < times(3000); ++n) {
          endpoint c = s.accept();
          s.receive(c, 64, n);
          s.send(c, 64, n + 1);
          s.accept_end(c);
          s.tell(n);
        }
      });
}

// A new lane must not receive records that an earlier lane has left in the same memory.
TEST_P(transport_conformance, a_new_lane_does_not_show_old_records) {
  make_pair();
  run(
      [](side& s) {
        for (std::uint64_t n = 0; n < 50; ++n) {
          endpoint c = s.open();
          EXPECT_FALSE(peek(c.in));
          s.step();
          // The rings end at another position each time, with records that were not read.
          for (std::uint64_t i = 0; i < n % 7 * 5; ++i)
            s.send(c, 72, i);
          s.step();
          if (n % 7 != 0) s.wait([&] { return static_cast<bool>(peek(c.in)); }, "reply");
          s.link().close(c);
          s.step();
        }
      },
      [](side& s) {
        for (std::uint64_t n = 0; n < 50; ++n) {
          endpoint c = s.accept();
          EXPECT_FALSE(peek(c.in));
          s.step();
          for (std::uint64_t i = 0; i < n % 7 * 5; ++i) {
            s.receive(c, 72, i);
            s.send(c, 72, i);
          }
          s.step();
          s.accept_end(c);
          s.step();
        }
      });
}

TEST_P(transport_conformance, closing_twice_does_not_close_the_next_lane) {
  make_pair();
  run(
      [](side& s) {
        const endpoint old = s.open();
        s.link().close(old);
        s.link().close(old);
        s.step(); // the lane is free again
        endpoint fresh = s.open();
        s.link().close(old);
        s.step();
        s.send(fresh, 64, 1);
        s.receive(fresh, 64, 2);
        s.step();
        s.link().close(fresh);
      },
      [](side& s) {
        const endpoint old = s.accept();
        s.accept_end(old);
        s.link().close(old);
        s.step();
        endpoint fresh = s.accept();
        s.step();
        s.link().close(old);
        EXPECT_FALSE(s.link().is_closed(fresh));
        EXPECT_FALSE(s.link().accept());
        s.receive(fresh, 64, 1);
        s.send(fresh, 64, 2);
        s.step();
        s.accept_end(fresh);
      });
}

TEST_P(transport_conformance, opening_one_lane_too_many_throws) {
  const std::uint32_t most = GetParam().max_lanes;
  const std::uint32_t tried = most != 0 ? most : GetParam().many_lanes;
  make_pair();
  run(
      [&](side& s) {
        std::vector<endpoint> all;
        for (std::uint32_t i = 0; i < tried; ++i)
          all.push_back(s.open());
        if (most != 0) {
          try {
            (void)s.open();
            ADD_FAILURE() << "one lane more than there are";
          } catch (const error& e) {
            EXPECT_EQ(e.node(), s.peer());
            EXPECT_THAT(e.what(), AllOf(HasSubstr(node_text(s.peer())), HasSubstr("lane"),
                                        HasSubstr(std::to_string(most)), HasSubstr(";")));
          }
        }
        // The other lanes still work, and a closed one can be opened again.
        s.send(all.back(), 64, 1);
        s.link().close(all.front());
        s.step();
        endpoint again = s.open();
        s.send(again, 64, 2);
        s.step();
        for (const endpoint& c : all)
          s.link().close(c);
        s.link().close(again);
      },
      [&](side& s) {
        std::vector<endpoint> all;
        for (std::uint32_t i = 0; i < tried; ++i)
          all.push_back(s.accept());
        std::uint32_t closed = tried;
        s.wait(
            [&] {
              for (closed = 0; closed < tried && !s.link().is_closed(all[closed]);)
                ++closed;
              return closed < tried;
            },
            "lane was closed");
        s.link().close(all[closed]);
        s.step();
        all[closed] = s.accept();
        s.receive(all[closed], 64, 2);
        s.step();
        std::uint32_t records = 0;
        for (endpoint& c : all) {
          while (const record_view record = peek(c.in)) {
            release(c.in, record);
            ++records;
          }
          s.accept_end(c);
        }
        EXPECT_EQ(records, 1U);
      });
}

} // namespace
} // namespace farcall::conformance
