// SPDX-License-Identifier: Apache-2.0

// Tests that all records arrive, complete and in order.

#include <tests/conformance/conformance.hpp>

#include <algorithm>

namespace farcall::conformance {
namespace {

/// Returns the length of record `n`: mostly short, and in one of 32 records up to `longest`.
std::uint32_t length_of(std::uint64_t n, std::uint32_t longest) {
  const std::uint64_t dice = test::scrambled(n);
  return static_cast<std::uint32_t>(8 + dice / 32 % ((dice % 32 == 0 ? longest : 200U) - 7));
}

class record_count {
 public:
  explicit record_count(std::uint64_t most) : max_(most) {}
  [[nodiscard]] bool is_complete() const { return count_ == max_; }
  [[nodiscard]] std::uint64_t next() const { return count_; }
  void add() { ++count_; }

 private:
  std::uint64_t max_;
  std::uint64_t count_ = 0;
};

/// Sends and receives `records` records as fast as the rings allow.
void exchange(side& s, std::uint64_t records, bool opens) {
  endpoint c = opens ? s.open() : s.accept();
  const std::uint32_t longest = s.link().traits().max_record;
  // The directions have different record numbers, so that a mix-up is noticed.
  const std::uint64_t ours = opens ? 0 : records;
  const std::uint64_t theirs = opens ? records : 0;
  record_count sent(records);
  record_count received(records);
  const auto turn = [&] {
    for (int burst = 0; burst < 50 && !sent.is_complete(); ++burst) {
      const std::uint64_t n = ours + sent.next();
      if (!test::send(c.out, length_of(n, longest), n)) break;
      sent.add();
    }
    while (const record_view record = peek(c.in)) {
      const std::uint64_t n = theirs + received.next();
      const std::string wrong = test::wrong_with(record, length_of(n, longest), n);
      if (!wrong.empty()) throw std::runtime_error("record " + std::to_string(n) + ": " + wrong);
      release(c.in, record);
      received.add();
    }
    return sent.is_complete() && received.is_complete();
  };
  s.wait(turn, "end of the exchange");
  EXPECT_FALSE(peek(c.in)) << "more than was sent";
  s.step();
  if (opens) {
    s.link().close(c);
  } else {
    s.accept_end(c);
  }
}

TEST_P(transport_conformance, records_of_all_lengths_arrive_in_order_both_ways) {
  for (const std::uint32_t ring_bytes : {4096U, 65536U}) {
    make_pair(ring_bytes);
    run([](side& s) { exchange(s, times(30'000), true); },
        [](side& s) { exchange(s, times(30'000), false); });
  }
}

TEST_P(transport_conformance, the_largest_records_go_through_and_around) {
  for (const std::uint32_t ring_bytes : {4096U, 65536U}) {
    make_pair(ring_bytes);
    run(
        [](side& s) {
          endpoint c = s.open();
          const std::uint32_t largest = s.link().traits().max_record;
          EXPECT_LE(largest, record_limit(c.out.size()));
          for (std::uint64_t n = 0; n < 50; ++n) {
            s.send(c, largest, n);
            s.receive(c, largest, n + 1);
          }
          s.link().close(c);
        },
        [](side& s) {
          endpoint c = s.accept();
          const std::uint32_t largest = s.link().traits().max_record;
          for (std::uint64_t n = 0; n < 50; ++n) {
            s.receive(c, largest, n);
            s.send(c, largest, n + 1);
          }
          s.accept_end(c);
        });
  }
}

TEST_P(transport_conformance, empty_and_all_zero_records_arrive) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open();
        for (int i = 0; i < 500; ++i) {
          const std::uint32_t bytes = i % 2 == 0 ? 8 : 64;
          std::byte* record = nullptr;
          s.wait([&] { return (record = try_reserve(c.out, bytes)) != nullptr; }, "space");
          std::fill(record + 4, record + bytes, std::byte{0});
          commit(c.out, record, bytes, record_kind::request);
        }
        s.step();
        s.link().close(c);
      },
      [](side& s) {
        endpoint c = s.accept();
        for (int i = 0; i < 500; ++i) {
          record_view record;
          s.wait([&] { return static_cast<bool>(record = peek(c.in)); }, "record");
          ASSERT_EQ(record.bytes, i % 2 == 0 ? 8U : 64U);
          for (std::uint32_t at = 4; at < record.bytes; ++at) {
            ASSERT_EQ(record.data[at], std::byte{0});
          }
          release(c.in, record);
        }
        s.step();
        s.accept_end(c);
      });
}

TEST_P(transport_conformance, a_full_ring_blocks_the_sender_without_losing_records) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open();
        std::uint64_t sent = 0;
        // The other side reads nothing, so the ring fills. progress() moves bytes of staged lanes.
        for (int refusals = 0; refusals < 100;) {
          if (test::send(c.out, 100, sent)) {
            ++sent;
          } else {
            ++refusals;
            s.link().progress();
          }
        }
        EXPECT_GT(sent, 0U);
        s.tell(sent);
        s.send(c, 100, sent); // succeeds once a record was read
        s.receive(c, 64, 7);
        s.link().close(c);
      },
      [](side& s) {
        const std::uint64_t sent = s.receive_number();
        endpoint c = s.accept();
        for (std::uint64_t n = 0; n <= sent; ++n)
          s.receive(c, 100, n);
        EXPECT_FALSE(peek(c.in));
        s.send(c, 64, 7);
        s.accept_end(c);
      });
}

// A full ring blocks replies, too, but not the other direction.
TEST_P(transport_conformance, a_full_ring_of_replies_does_not_stop_requests) {
  make_pair();
  run(
      [](side& s) {
        endpoint c = s.open();
        const std::uint64_t replies = s.receive_number(); // they fill the ring
        for (std::uint64_t n = 0; n < times(2000); ++n)
          s.send(c, 100, n);
        s.step();
        for (std::uint64_t n = 0; n <= replies; ++n)
          s.receive(c, 100, n);
        s.step();
        s.link().close(c);
      },
      [](side& s) {
        endpoint c = s.accept();
        std::uint64_t replies = 0;
        while (test::send(c.out, 100, replies))
          ++replies;
        s.tell(replies);
        for (std::uint64_t n = 0; n < times(2000); ++n)
          s.receive(c, 100, n);
        // A lane driver may have moved records out of the ring meanwhile.
        EXPECT_TRUE(c.driver != nullptr || !test::send(c.out, 100, replies));
        s.step();
        s.send(c, 100, replies);
        s.step();
        s.accept_end(c);
      });
}

TEST_P(transport_conformance, all_that_was_sent_before_a_close_is_read) {
  static constexpr std::uint64_t lanes = 20;
  make_pair();
  run(
      [](side& s) {
        for (std::uint64_t lane = 0; lane < lanes; ++lane) {
          endpoint c = s.open();
          for (std::uint64_t n = 0; n < lane; ++n)
            s.send(c, 100, n);
          s.link().close(c);
          ASSERT_EQ(s.receive_number(), lane);
        }
      },
      [](side& s) {
        for (std::uint64_t lane = 0; lane < lanes; ++lane) {
          endpoint c = s.accept();
          std::uint64_t read = 0;
          while (!s.link().is_closed(c)) {
            s.link().progress();
            if (const record_view record = peek(c.in)) {
              ASSERT_EQ(test::wrong_with(record, 100, read), "");
              release(c.in, record);
              ++read;
            }
          }
          EXPECT_EQ(read, lane);
          s.link().close(c);
          s.tell(lane);
        }
      });
}

} // namespace
} // namespace farcall::conformance
