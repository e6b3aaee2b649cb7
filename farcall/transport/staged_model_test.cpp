// SPDX-License-Identifier: Apache-2.0

// Walks through all interleavings of two users, two ends and a link between them, with the
// library's own next(): a breadth-first search over all combined states.

#include <farcall/transport/staged_state.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace farcall::staged_model_test {
namespace {

/// Smallest sizes that can fill up: a ring of one record, a link of one item.
constexpr std::uint8_t max_commits = 2;
constexpr std::uint8_t ring_space = 1;
constexpr std::uint8_t link_space = 1;

/// State of an end and its user. All records arrive in order, so counts suffice.
struct end_state {
  send_state send = send_state::idle;
  receive_state receive = receive_state::idle;
  std::uint8_t committed = 0; ///< records that the user has committed
  std::uint8_t sent = 0;      ///< records that the link has taken
  std::uint8_t arrived = 0;   ///< records in the user's ring
  std::uint8_t read = 0;      ///< records that the user has read
  bool has_closed = false;    ///< closed by the user
  auto operator<=>(const end_state&) const = default;
};

/// Items in flight in one direction: records, then possibly the end mark.
struct link_state {
  std::uint8_t records = 0;
  bool has_goodbye = false;
  auto operator<=>(const link_state&) const = default;
};

/// Ends 0 and 1; link i leads from end i to the other. End 0 opens and closes the lane, end 1
/// accepts it.
struct lane_state {
  std::array<end_state, 2> ends;
  std::array<link_state, 2> links;
  bool is_broken = false;
  std::uint8_t given_back = 0; ///< how often the lane was given back
  auto operator<=>(const lane_state&) const = default;
};

struct step {
  std::string what;
  lane_state to;
};

/// Differences between kinds of links.
struct link_kind {
  const char* name;
  /// True if a message of the peer opens the lane, and can open it again (a device). False if both
  /// ends start with the connection (TCP).
  bool is_offered;
};

class model {
 public:
  explicit model(link_kind kind) : kind_(kind) {}

  [[nodiscard]] lane_state start() const {
    lane_state s;
    if (!kind_.is_offered) {
      for (unsigned side = 0; side < 2; ++side)
        open(s, side);
    }
    return s;
  }

  [[nodiscard]] std::vector<step> steps(const lane_state& from) const {
    std::vector<step> all;
    for (unsigned side = 0; side < 2; ++side) {
      user_steps(from, side, all);
      sender_steps(from, side, all);
      receiver_steps(from, side, all);
    }
    life_steps(from, all);
    return all;
  }

  /// True if both ends are done with the lane.
  [[nodiscard]] bool is_end(const lane_state& s) const {
    if (!s.is_broken && kind_.is_offered) return s.given_back != 0;
    return is_over(s.ends[0].receive) && is_over(s.ends[1].receive);
  }

 private:
  static bool on(end_state& e, send_event what) {
    const send_state before = e.send;
    e.send = next(e.send, what);
    return e.send != before;
  }
  static bool on(end_state& e, receive_event what) {
    const receive_state before = e.receive;
    e.receive = next(e.receive, what);
    return e.receive != before;
  }
  static void open(lane_state& s, unsigned side) {
    s.ends[side].send = next(s.ends[side].send, send_event::open);
    s.ends[side].receive = next(s.ends[side].receive, receive_event::open);
  }

  void user_steps(const lane_state& from, unsigned side, std::vector<step>& all) const {
    const end_state& e = from.ends[side];
    const std::string who = "user " + std::to_string(side);
    const bool has_lane = e.send != send_state::idle;
    const bool may_commit = e.send == send_state::open || e.send == send_state::blocked;
    if (may_commit && e.committed < max_commits) {
      lane_state s = from;
      ++s.ends[side].committed;
      all.push_back({who + " commits", s});
    }
    if (!e.has_closed && e.read < e.arrived) {
      lane_state s = from;
      ++s.ends[side].read;
      all.push_back({who + " reads", s});
    }
    // An acceptor that finds an error sends no more.
    if (side == 1 && e.receive == receive_state::corrupt && !e.has_closed) {
      lane_state s = from;
      if (on(s.ends[side], send_event::close)) all.push_back({who + " refuses", s});
    }
    // The opener may close at any time, the acceptor after the opener's close.
    const bool may_close = side == 0 || e.receive == receive_state::corrupt ||
                           (is_over(e.receive) && e.read == e.arrived);
    if (has_lane && !e.has_closed && may_close) {
      lane_state s = from;
      close(s.ends[side], side);
      lane_state twice = s;
      close(twice.ends[side], side);
      EXPECT_EQ(twice, s) << "a second close changes something: " << who;
      all.push_back({who + " closes", s});
    }
  }

  void close(end_state& e, unsigned side) const {
    e.has_closed = true;
    if (side == 0) {
      on(e, send_event::close);
      on(e, receive_event::close);
    } else if (kind_.is_offered) {
      on(e, send_event::release);
      on(e, receive_event::close);
    } else {
      on(e, send_event::cut);
      on(e, receive_event::lose);
    }
  }

  void sender_steps(const lane_state& from, unsigned side, std::vector<step>& all) const {
    const end_state& e = from.ends[side];
    if (!is_sending(e.send)) return;
    const std::string who = "sender " + std::to_string(side);
    lane_state s = from;
    end_state& mine = s.ends[side];
    if (from.is_broken) {
      on(mine, send_event::cut);
      on(mine, receive_event::lose);
      all.push_back({who + " finds the link broken", s});
      return;
    }
    link_state& link = s.links[side];
    const bool has_space = link.records < link_space;
    if (is_blocked(e.send)) {
      if (has_space && on(mine, send_event::unblock)) all.push_back({who + " is unblocked", s});
      return;
    }
    if (e.sent < e.committed) {
      if (has_space) {
        ++link.records;
        ++mine.sent;
        all.push_back({who + " sends", s});
      } else {
        EXPECT_TRUE(on(mine, send_event::block));
        all.push_back({who + " is blocked", s});
      }
    } else if (e.send == send_state::closing) {
      EXPECT_TRUE(on(mine, send_event::finish));
      link.has_goodbye = side == 0 || !kind_.is_offered;
      all.push_back({who + " finishes", s});
    }
  }

  void receiver_steps(const lane_state& from, unsigned side, std::vector<step>& all) const {
    const end_state& e = from.ends[side];
    const std::string who = "receiver " + std::to_string(side);
    if (is_over(e.receive)) return;
    lane_state s = from;
    end_state& mine = s.ends[side];
    if (from.is_broken) {
      on(mine, receive_event::lose);
      on(mine, send_event::cut);
      all.push_back({who + " finds the link broken", s});
      return;
    }
    // Received bytes wait until the lane is accepted, or closed.
    if (e.receive == receive_state::offered || e.receive == receive_state::corrupt) return;
    link_state& link = s.links[1 - side];
    if (link.records != 0) {
      if (e.receive == receive_state::dropping) {
        --link.records;
        all.push_back({who + " drops", s});
      } else if (e.arrived - e.read < ring_space) {
        if (e.receive == receive_state::full) {
          EXPECT_TRUE(on(mine, receive_event::drain));
        }
        --link.records;
        ++mine.arrived;
        all.push_back({who + " takes in", s});
      } else if (on(mine, receive_event::fill)) {
        all.push_back({who + " is full", s});
      }
      if (e.receive != receive_state::dropping) {
        lane_state bad = from;
        EXPECT_TRUE(on(bad.ends[side], receive_event::corrupt));
        --bad.links[1 - side].records;
        all.push_back({who + " finds no record", bad});
      }
    } else if (link.has_goodbye) {
      // The acceptor's end mark is the mark of its refusal.
      const bool is_mark = side == 0 && e.receive != receive_state::dropping;
      EXPECT_TRUE(on(mine, is_mark ? receive_event::corrupt : receive_event::end));
      link.has_goodbye = is_mark;
      all.push_back({who + " sees the end", s});
    } else if (is_gone(from.ends[1 - side])) {
      // The peer has given up the lane without closing it. This is the end for an opener that drops
      // what it receives, and a loss for others.
      on(mine, e.receive == receive_state::dropping ? receive_event::end : receive_event::lose);
      if (e.receive != receive_state::dropping) on(mine, send_event::cut);
      all.push_back({who + " sees that the peer is gone", s});
    }
  }

  static bool is_gone(const end_state& e) { return e.send == send_state::cut; }

  void life_steps(const lane_state& from, std::vector<step>& all) const {
    if (!from.is_broken) {
      lane_state s = from;
      s.is_broken = true;
      s.links = {};
      all.push_back({"the link breaks", s});
    }
    if (!kind_.is_offered || from.is_broken) return;
    const end_state& opener = from.ends[0];
    const end_state& acceptor = from.ends[1];
    if (opener.send == send_state::idle && from.given_back == 0) {
      lane_state s = from;
      open(s, 0);
      EXPECT_TRUE(on(s.ends[1], receive_event::offer));
      all.push_back({"end 0 opens", s});
    }
    if (acceptor.receive == receive_state::offered) {
      lane_state s = from;
      open(s, 1);
      all.push_back({"end 1 accepts", s});
    }
    const bool is_done =
        opener.send == send_state::finished && from.links == decltype(from.links){};
    if (is_done && acceptor.has_closed && acceptor.receive == receive_state::idle) {
      lane_state s = from;
      on(s.ends[0], send_event::release);
      on(s.ends[0], receive_event::release);
      ++s.given_back;
      all.push_back({"end 0 gives the lane back", s});
    }
  }

  link_kind kind_;
};

std::string text_of(const lane_state& s) {
  std::string text;
  for (const end_state& e : s.ends) {
    text += std::string(name_of(e.send)) + "/" + std::string(name_of(e.receive)) + " " +
            std::to_string(e.committed) + std::to_string(e.sent) + std::to_string(e.arrived) +
            std::to_string(e.read) + (e.has_closed ? " closed; " : "; ");
  }
  return text + (s.is_broken ? "broken" : "");
}

/// All reachable states, each with the states that lead to it.
struct walk {
  std::map<lane_state, std::vector<lane_state>> before;
  std::set<send_state> sending;
  std::set<receive_state> receiving;
};

/// Checks the invariants of every state and every step.
void check(const lane_state& from, const step& taken) {
  for (unsigned side = 0; side < 2; ++side) {
    const end_state& was = from.ends[side];
    const end_state& is = taken.to.ends[side];
    const end_state& peer = taken.to.ends[1 - side];
    ASSERT_LE(is.sent, is.committed) << taken.what;
    ASSERT_LE(is.arrived, peer.sent) << taken.what << ": something arrives that was not sent";
    if (was.has_closed) {
      ASSERT_EQ(is.arrived, was.arrived) << taken.what << ": a ring is used after its close";
    }
    if (was.send == send_state::finished || was.send == send_state::cut) {
      ASSERT_EQ(is.sent, was.sent) << taken.what << ": something is sent after the end";
    }
    if (is.receive == receive_state::ended) {
      ASSERT_EQ(is.arrived, peer.committed) << taken.what << ": a record is lost";
    }
    if (is.send == send_state::finished) {
      ASSERT_EQ(is.sent, is.committed) << taken.what << ": a record is never sent";
    }
  }
}

walk walk_through(const model& m) {
  walk w;
  std::deque<lane_state> todo{m.start()};
  w.before[m.start()];
  while (!todo.empty()) {
    const lane_state from = todo.front();
    todo.pop_front();
    for (const end_state& e : from.ends) {
      w.sending.insert(e.send);
      w.receiving.insert(e.receive);
    }
    for (const step& s : m.steps(from)) {
      check(from, s);
      if (::testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "from " << text_of(from) << " to " << text_of(s.to);
        return w;
      }
      const auto [at, is_new] = w.before.try_emplace(s.to);
      at->second.push_back(from);
      if (is_new) todo.push_back(s.to);
    }
  }
  return w;
}

/// Returns states from which no path leads to an end. Paths on which the link breaks do not count.
std::vector<lane_state> without_exit(const walk& w, const model& m) {
  std::set<lane_state> good;
  std::deque<lane_state> todo;
  for (const auto& [s, from] : w.before) {
    if (m.is_end(s) && good.insert(s).second) todo.push_back(s);
  }
  while (!todo.empty()) {
    const lane_state s = todo.front();
    todo.pop_front();
    for (const lane_state& from : w.before.at(s)) {
      if (from.is_broken == s.is_broken && good.insert(from).second) todo.push_back(from);
    }
  }
  std::vector<lane_state> bad;
  for (const auto& [s, from] : w.before) {
    if (!good.contains(s)) bad.push_back(s);
  }
  return bad;
}

class staged_models : public ::testing::TestWithParam<link_kind> {};

TEST_P(staged_models, keep_all_records_and_use_none_after_its_end) {
  const walk w = walk_through(model(GetParam()));
  EXPECT_GT(w.before.size(), 1000U) << "the walk has hardly begun";
  RecordProperty("states", static_cast<int>(w.before.size()));
}

TEST_P(staged_models, every_state_leads_to_an_end) {
  const model m(GetParam());
  for (const lane_state& s : without_exit(walk_through(m), m))
    ADD_FAILURE() << "no way out of: " << text_of(s);
}

TEST_P(staged_models, every_state_is_reached) {
  const walk w = walk_through(model(GetParam()));
  const bool is_offered = GetParam().is_offered;
  for (std::size_t i = 0; i < send_states; ++i) {
    const auto s = static_cast<send_state>(i);
    if (!is_offered && s == send_state::idle) continue; // a connection is in use from its start
    EXPECT_TRUE(w.sending.contains(s)) << name_of(s);
  }
  for (std::size_t i = 0; i < receive_states; ++i) {
    const auto s = static_cast<receive_state>(i);
    if (!is_offered && s == receive_state::offered) continue;
    EXPECT_TRUE(w.receiving.contains(s)) << name_of(s);
  }
}

INSTANTIATE_TEST_SUITE_P(links, staged_models,
                         ::testing::Values(link_kind{"tcp", false}, link_kind{"device", true}),
                         [](const auto& p) { return std::string(p.param.name); });

} // namespace
} // namespace farcall::staged_model_test
