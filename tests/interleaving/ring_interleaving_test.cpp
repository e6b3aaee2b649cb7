// SPDX-License-Identifier: Apache-2.0

// Runs the other side of a ring inside every window between two steps of one side, in all possible
// orders. One thread runs both sides, so that the test certainly reaches each order.

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <tests/ring_support.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::test {
namespace {

std::function<void(std::string_view window)> other_side;
bool other_side_runs = false;

} // namespace

void ring_window(const char* name) noexcept {
  // The other side has windows, too, which are not interrupted.
  if (!other_side || other_side_runs) return;
  other_side_runs = true;
  other_side(name);
  other_side_runs = false;
}

namespace {

constexpr std::uint64_t small = min_ring;

/// Sets the function that runs in the windows as long as this object lives.
class interruption {
 public:
  explicit interruption(std::function<void(std::string_view)> f) { other_side = std::move(f); }
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  ~interruption() { other_side = nullptr; }
};

/// Counts through all sequences of choices of a scenario, like an odometer.
class choices {
 public:
  /// Returns a number from 0 to alternatives - 1.
  [[nodiscard]] unsigned choose(unsigned alternatives) {
    if (at_ == made_.size()) made_.emplace_back(0U, alternatives);
    return made_[at_++].first;
  }
  /// Starts the next sequence. Returns false after the last one.
  [[nodiscard]] bool next() {
    at_ = 0;
    while (!made_.empty() && ++made_.back().first == made_.back().second)
      made_.pop_back();
    return !made_.empty();
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& made : made_)
      all += std::to_string(made.first);
    return all;
  }

 private:
  std::vector<std::pair<unsigned, unsigned>> made_;
  std::size_t at_ = 0;
};

/// Both sides of a ring, and the records that were sent and not read yet.
class lane_model {
 public:
  explicit lane_model(std::uint64_t start) : ring(small, start) {}

  /// Returns false if the ring is full.
  bool send_one(std::uint32_t bytes) {
    std::byte* record = try_reserve(ring.out, bytes);
    if (record == nullptr) return false;
    fill(record, bytes, sent_);
    commits_ = {bytes, sent_};
    ++sent_;
    commit(ring.out, record, bytes, record_kind::request);
    note_commit();
    return true;
  }

  /// Notes that the record being committed is visible to the receiver from now on.
  void note_commit() {
    if (commits_.first != 0) waiting_.push_back(std::exchange(commits_, {}));
  }

  /// Reads one record. Returns the error if the record is wrong, missing or one too many.
  std::string read_one() {
    const record_view record = peek(ring.in);
    if (waiting_.empty()) return record ? "a record that was not sent" : "";
    const auto [bytes, n] = waiting_.front();
    waiting_.pop_front();
    std::string wrong = wrong_with(record, bytes, n);
    if (wrong.empty()) release(ring.in, record);
    return wrong;
  }

  std::string read_all() {
    while (!waiting_.empty()) {
      if (std::string wrong = read_one(); !wrong.empty()) return wrong;
    }
    return read_one(); // the ring must be empty now
  }

  private_ring ring;

 private:
  std::uint64_t sent_ = 0;
  std::pair<std::uint32_t, std::uint64_t> commits_{};
  std::deque<std::pair<std::uint32_t, std::uint64_t>> waiting_;
};

TEST(ring_interleaving, a_receiver_in_any_window_reads_committed_records_only) {
  std::map<std::string, std::uint64_t> windows;
  std::uint64_t orders = 0;
  for (const std::uint64_t before_end : {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{512},
                                         std::uint64_t{1008}, std::uint64_t{1024}}) {
    for (const std::uint32_t first : {16U, 500U, 512U, 1024U}) {
      for (const std::uint32_t second : {8U, 512U, 1024U}) {
        choices c;
        do {
          ++orders;
          lane_model lane(2 * small - before_end);
          std::string wrong;
          const auto read_some = [&] {
            const unsigned choice = c.choose(3);
            const std::string w = choice == 0   ? std::string{}
                                  : choice == 1 ? lane.read_one()
                                                : lane.read_all();
            if (wrong.empty()) wrong = w;
          };
          const interruption receiver([&](std::string_view window) {
            ++windows[std::string(window)];
            if (window == "commit_before_notify") lane.note_commit();
            read_some();
          });
          ASSERT_TRUE(lane.send_one(first));
          ASSERT_TRUE(lane.send_one(second));
          if (wrong.empty()) wrong = lane.read_all();
          ASSERT_EQ(wrong, "") << before_end << " bytes before the end, lengths " << first << ", "
                               << second << ", choices " << c.text();
        } while (c.next());
      }
    }
  }
  EXPECT_GT(orders, 5 * 4 * 3 * 81U);
  EXPECT_GT(windows["commit_after_terminator"], 0U);
  EXPECT_GT(windows["commit_before_notify"], 0U);
  EXPECT_GT(windows["pad_after_terminator"], 0U);
}

TEST(ring_interleaving, a_full_ring_gets_space_whenever_the_receiver_reads) {
  for (const std::uint32_t bytes : {240U, 512U, 1024U}) {
    for (std::uint64_t start = 0; start < small; start += 208) {
      choices c;
      do {
        lane_model lane(start);
        while (lane.send_one(bytes)) {
        }
        std::string wrong;
        bool looked = false;
        const interruption receiver([&](std::string_view window) {
          if (window == "commit_before_notify") lane.note_commit();
          looked = looked || window == "reserve_after_look";
          const unsigned choice = c.choose(3);
          const std::string w = choice == 0   ? std::string{}
                                : choice == 1 ? lane.read_one()
                                              : lane.read_all();
          if (wrong.empty()) wrong = w;
        });
        bool sent = lane.send_one(bytes);
        if (!sent) {
          ASSERT_EQ(lane.read_all(), "");
          sent = lane.send_one(bytes);
        }
        ASSERT_TRUE(sent) << bytes << " from " << start << ", choices " << c.text();
        ASSERT_TRUE(looked);
        if (wrong.empty()) wrong = lane.read_all();
        ASSERT_EQ(wrong, "") << bytes << " from " << start << ", choices " << c.text();
      } while (c.next());
    }
  }
}

TEST(ring_interleaving, a_sender_may_send_while_the_receiver_skips_pads) {
  for (const unsigned more : {0U, 1U, 5U}) {
    lane_model lane(small - 64);
    ASSERT_NE(try_reserve(lane.ring.out, 128), nullptr); // the pad, and no record yet
    bool interrupted = false;
    const interruption sender([&](std::string_view window) {
      if (window != "peek_after_pad") return;
      interrupted = true;
      for (unsigned i = 0; i < more; ++i)
        ASSERT_TRUE(lane.send_one(128));
    });
    const record_view record = peek(lane.ring.in);
    EXPECT_TRUE(interrupted);
    EXPECT_EQ(static_cast<bool>(record), more != 0);
    EXPECT_EQ(lane.read_all(), "");
  }
}

// A peer that writes pad after pad while the receiver reads must not hold the receiver in a loop.
TEST(ring_interleaving, pads_written_while_the_receiver_reads_are_refused) {
  private_ring r(small, small - 64);
  r.forge(small - 64, commit_word(64, record_kind::pad));
  unsigned interruptions = 0;
  const interruption sender([&](std::string_view window) {
    if (window != "peek_after_pad") return;
    ++interruptions;
    r.forge(0, commit_word(small, record_kind::pad));
  });
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
  EXPECT_EQ(interruptions, 1U);
}

// Either the receiver's poll after arm() finds the record, or the sender finds the doorbell armed
// and notifies.
TEST(ring_interleaving, arming_in_any_window_misses_no_record) {
  constexpr const char* moments[] = {"before", "commit_after_terminator", "commit_before_notify",
                                     "after"};
  for (const std::string_view moment : moments) {
    private_ring r(small);
    doorbell b;
    armed_doorbell watched{&b};
    notify_on_commit(r.out, b);
    bool went_to_sleep = false;
    bool saw_it = false;
    const auto fall_asleep = [&] {
      went_to_sleep = true;
      arm({&watched, 1});
      saw_it = has_record(r.in, r.in.tail);
    };
    const interruption sleeper([&](std::string_view window) {
      if (window == moment) fall_asleep();
    });
    if (moment == "before") fall_asleep();
    ASSERT_TRUE(send(r.out, 64, 1));
    if (moment == "after") fall_asleep();
    ASSERT_TRUE(went_to_sleep) << moment;
    const bool rung = b.word.load() != watched.seen;
    EXPECT_TRUE(saw_it || rung) << moment;
    EXPECT_EQ(wrong_with(peek(r.in), 64, 1), "");
  }
}

} // namespace
} // namespace farcall::test
