// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/staged_state.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace farcall::staged_state_test {
namespace {

/// A table of docs/staged-lane.md: its rows are states, its columns events.
using table = std::map<std::string, std::map<std::string, std::string>>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(line.find('|') + 1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto begin = cell.find_first_not_of(' ');
    const auto end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

/// Reads the table whose upper left cell says `corner`.
table documented(const std::string& corner) {
  std::ifstream file(FARCALL_DOCUMENTS "/staged-lane.md");
  EXPECT_TRUE(file) << "docs/staged-lane.md is not where the sources are";
  table found;
  std::vector<std::string> events;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] != '|') {
      events.clear();
      continue;
    }
    const std::vector<std::string> cells = cells_of(line);
    if (cells.at(0) == corner) {
      events = cells;
    } else if (!events.empty() && cells[0].find("--") == std::string::npos) {
      for (std::size_t i = 1; i < cells.size(); ++i)
        found[cells[0]][events.at(i)] = cells[i];
    }
  }
  return found;
}

template <class State, class Event>
void compare(const table& written, std::size_t states, std::size_t events) {
  ASSERT_EQ(written.size(), states);
  for (std::size_t i = 0; i < states; ++i) {
    const auto from = static_cast<State>(i);
    const auto row = written.find(std::string(name_of(from)));
    ASSERT_NE(row, written.end()) << name_of(from);
    ASSERT_EQ(row->second.size(), events) << name_of(from);
    for (std::size_t j = 0; j < events; ++j) {
      const auto what = static_cast<Event>(j);
      const State to = next(from, what);
      const auto cell = row->second.find(std::string(name_of(what)));
      ASSERT_NE(cell, row->second.end()) << name_of(what);
      // An empty cell means that the state stays.
      EXPECT_EQ(cell->second, to == from ? "" : name_of(to))
          << name_of(from) << ", " << name_of(what);
    }
  }
}

TEST(staged_state, sending_is_as_documented) {
  compare<send_state, send_event>(documented("sending"), send_states, send_events);
}

TEST(staged_state, receiving_is_as_documented) {
  compare<receive_state, receive_event>(documented("receiving"), receive_states, receive_events);
}

TEST(staged_state, on_is_true_only_for_changes) {
  staged_state<send_state, send_event> s;
  EXPECT_EQ(s.now(), send_state::idle);
  EXPECT_TRUE(s.on(send_event::open));
  EXPECT_FALSE(s.on(send_event::open));
  EXPECT_FALSE(s.on(send_event::finish)) << "only what is closing finishes";
  EXPECT_TRUE(s.on(send_event::cut));
  EXPECT_FALSE(s.on(send_event::cut));
  EXPECT_EQ(s.now(), send_state::cut);
}

TEST(staged_state, one_of_many_threads_ends_it) {
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    staged_state<receive_state, receive_event> s;
    s.on(receive_event::open);
    std::atomic<int> told{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        // The lane's own work continues at the same time.
        s.on(receive_event::fill);
        if (s.on(receive_event::lose)) ++told;
        s.on(receive_event::drain);
      });
    }
    for (std::thread& t : threads)
      t.join();
    ASSERT_EQ(told, 1);
    ASSERT_EQ(s.now(), receive_state::lost);
  }
}

} // namespace
} // namespace farcall::staged_state_test
