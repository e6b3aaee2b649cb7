// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/copy/transfer.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::transfer_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using words = std::vector<std::uint64_t>;

class transfers : public two_targets_test {};

words pattern(std::size_t n, std::uint64_t seed) {
  words made(n);
  for (std::size_t i = 0; i < n; ++i)
    made[i] = (i + seed) * 0x9e3779b97f4a7c15U;
  return made;
}

/// Runs on the owner: true if the memory holds pattern(size, seed).
bool holds(remote_span<const std::uint64_t> s, std::uint64_t seed) {
  const words expected = pattern(s.size(), seed);
  return std::equal(s.begin(), s.end(), expected.begin());
}

void write_pattern(remote_span<std::uint64_t> s, std::uint64_t seed) {
  const words made = pattern(s.size(), seed);
  std::copy(made.begin(), made.end(), s.begin());
}

// The window of the thread's last copy must not be used for another node or job.
TEST_F(transfers, short_copies_alternate_between_nodes_and_jobs) {
  const job another(with_targets("shm"));
  const node nodes[] = {target_, other_, another.targets().front(), job_.host()};
  std::vector<buffer<std::uint64_t>> memories;
  for (const node& n : nodes) {
    memories.push_back(n.allocate<std::uint64_t>(2));
    put_sync(words{0, 0}, memories.back());
  }
  std::array<words, 4> written;
  written.fill(words(2));
  for (std::uint64_t round = 1; round < 500; ++round) {
    const std::size_t to = round * round % 7 % 4;
    put_sync(std::span(&round, 1), memories[to]);
    written.at(to)[0] = round;
    for (std::size_t i = 0; i < 4; ++i) {
      words got(2);
      get_sync(memories[i], got);
      ASSERT_EQ(got, written.at(i)) << i << " in round " << round;
    }
  }
}

TEST_F(transfers, short_copies_detect_ended_jobs_and_nodes) {
  const std::uint64_t value = 7;
  for (int round = 0; round < 5; ++round) {
    job one(with_targets("shm"));
    const node target = one.targets().front();
    const buffer<std::uint64_t> memory = target.allocate<std::uint64_t>(1);
    put_sync(std::span(&value, 1), memory);
    put_sync(std::span(&value, 1), memory);
    EXPECT_TRUE(
        sync(target, [](remote_span<std::uint64_t> m) { return m[0] == 7; }, memory.span()));
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
    EXPECT_TRUE(eventually([&] { return !target.alive(); }));
    EXPECT_THROW(put_sync(std::span(&value, 1), memory), node_failed);
    EXPECT_THROW(put(std::span(&value, 1), memory).get(), node_failed);
  }
}

TEST_F(transfers, short_copies_of_other_threads_detect_ended_jobs) {
  job_.close();
  std::optional<job> ending(with_targets("shm"));
  auto memory = ending->targets().front().allocate<std::uint64_t>(1);
  const remote_span<std::uint64_t> span = memory.span();
  std::barrier<> step(2);
  std::thread other([&] {
    put_sync(words{1}, span);
    step.arrive_and_wait();
    step.arrive_and_wait(); // the job has ended
    EXPECT_THROW(put_sync(words{2}, span), error);
    const job later(with_targets("shm"));
    EXPECT_THROW(put_sync(words{3}, span), error);
  });
  step.arrive_and_wait();
  memory.reset();
  ending.reset();
  step.arrive_and_wait();
  other.join();
}

TEST_F(transfers, put_and_get_of_any_size) {
  for (const std::size_t n : {0U, 1U, 2U, 7U, 8U, 100U, 8191U, 8192U, 100'003U, 524'287U, 524'288U,
                              524'289U, 3'000'001U}) {
    const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
    const words sent = pattern(n, n);
    put(sent, memory).get();
    ASSERT_TRUE(sync(target_, holds, memory.span(), n)) << n;
    sync(target_, write_pattern, memory.span(), n + 1);
    words got(n);
    get(memory, got).get();
    ASSERT_TRUE(got == pattern(n, n + 1)) << n;

    put_sync(sent, memory);
    ASSERT_TRUE(sync(target_, holds, memory.span(), n)) << n;
    std::fill(got.begin(), got.end(), 0);
    get_sync(memory, got);
    ASSERT_TRUE(got == sent) << n;
  }
}

TEST_F(transfers, offsets) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(1000);
  sync(target_, write_pattern, memory.span(), std::uint64_t{0});
  const words sent = pattern(100, 77);
  put(sent, memory.subspan(500, 100)).get();
  words got(1000);
  get(memory, got).get();
  words expected = pattern(1000, 0);
  std::copy(sent.begin(), sent.end(), expected.begin() + 500);
  EXPECT_EQ(got, expected);

  words part(10);
  get_sync(memory.span().last(10), part);
  EXPECT_EQ(part, words(expected.end() - 10, expected.end()));
}

TEST_F(transfers, odd_bytes_at_odd_offsets) {
  const buffer<char> memory = target_.allocate<char>(300);
  put_sync(std::vector<char>(300, '.'), memory);
  for (std::size_t offset = 0; offset < 70; offset += 3) {
    for (const std::size_t n : {1U, 3U, 15U, 16U, 17U, 63U, 64U, 65U, 127U, 200U}) {
      const std::vector<char> sent(n, static_cast<char>('a' + offset % 26));
      put_sync(sent, memory.subspan(offset, n));
      std::vector<char> got(300);
      get_sync(memory, got);
      std::vector<char> expected(300, '.');
      std::copy(sent.begin(), sent.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
      ASSERT_EQ(got, expected) << n << " bytes at " << offset;
      put_sync(std::vector<char>(n, '.'), memory.subspan(offset, n));
    }
  }
}

TEST_F(transfers, local_side_may_be_shorter_not_longer) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(10);
  sync(target_, write_pattern, memory.span(), std::uint64_t{5});
  put_sync(words{1, 2}, memory);
  words got(3);
  get_sync(memory, got);
  EXPECT_EQ(got, (words{1, 2, pattern(3, 5)[2]}));

  words eleven(11);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)put(eleven, memory); }), HasSubstr("11"));
  EXPECT_THROW(put_sync(eleven, memory), error);
  EXPECT_THROW((void)get(memory, eleven), error);
  EXPECT_THROW(get_sync(memory, eleven), error);
  EXPECT_THROW((void)put(got, memory.subspan(8, 2)), error);
  const buffer<std::uint64_t> nine = other_.allocate<std::uint64_t>(9);
  EXPECT_THROW((void)copy(memory, nine), error);
  EXPECT_THROW(copy_sync(memory, nine), error);
}

/// Copies from or to a bad address of `where`, on the node that runs this.
void use_what_is_not_there(const node& where, bool puts) {
  std::array<std::uint64_t, 4> here{};
  const remote_span<std::uint64_t> nothing(where.id(), 16, here.size());
  if (puts) {
    put_sync(here, nothing);
  } else {
    get_sync(nothing, here);
  }
}

TEST_F(transfers, missing_memory_is_an_error_of_the_copy) {
  for (const bool puts : {true, false}) {
    EXPECT_THAT(text_thrown_by<error>([&] { use_what_is_not_there(target_, puts); }),
                AllOf(HasSubstr("node 1"), HasSubstr("32 bytes at address 16")));
    EXPECT_THAT(
        text_thrown_by<error>([&] { sync(target_, use_what_is_not_there, job_.host(), puts); }),
        AllOf(HasSubstr("host"), HasSubstr("32 bytes at address 16")));
  }
  const buffer<std::uint64_t> there = other_.allocate<std::uint64_t>(4);
  const remote_span<std::uint64_t> nothing(target_.id(), 16, 4);
  EXPECT_THROW(copy_sync(there, nothing), error);
  EXPECT_THROW(copy_sync(nothing, there), error);
  EXPECT_EQ(sync(target_, [] { return 1; }), 1);
  EXPECT_EQ(sync(other_, [] { return 2; }), 2);
}

TEST_F(transfers, const_sources) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(4);
  const std::array<std::uint64_t, 4> constant{1, 2, 3, 4};
  put_sync(constant, memory);
  const std::uint64_t raw[] = {5, 6};
  put_sync(raw, memory.subspan(2, 2));
  const remote_span<const std::uint64_t> view = memory.span();
  std::array<std::uint64_t, 4> got{};
  get_sync(view, got);
  EXPECT_EQ(got, (std::array<std::uint64_t, 4>{1, 2, 5, 6}));
  const buffer<std::uint64_t> second = other_.allocate<std::uint64_t>(4);
  copy_sync(view, second);
  std::fill(got.begin(), got.end(), 0);
  get_sync(second, got);
  EXPECT_EQ(got, (std::array<std::uint64_t, 4>{1, 2, 5, 6}));
  put_sync(std::span<const std::uint64_t>(constant).subspan(1, 2), memory);
  get_sync(view, got);
  EXPECT_EQ(got[0], 2U);
}

TEST_F(transfers, structures) {
  struct point {
    float x;
    std::int16_t tag;
  };
  const buffer<point> memory = target_.allocate<point>(3);
  put_sync(std::vector<point>{{1, 2}, {3, 4}, {5, 6}}, memory);
  EXPECT_EQ(
      sync(
          target_, [](remote_span<const point> s) { return s[1].x + s[2].tag; }, memory.span()),
      9);
}

TEST_F(transfers, between_targets) {
  for (const std::size_t n : {0U, 1U, 1000U, 600'000U, 3'000'000U}) {
    const buffer<std::uint64_t> from = target_.allocate<std::uint64_t>(n);
    const buffer<std::uint64_t> to = other_.allocate<std::uint64_t>(n + 1);
    sync(target_, write_pattern, from.span(), n);
    copy(from, to).get();
    ASSERT_TRUE(sync(other_, holds, to.span().first(n), n)) << n;
  }
}

TEST_F(transfers, between_every_pair_of_nodes) {
  const std::array<node, 3> nodes{job_.host(), target_, other_};
  std::uint64_t seed = 0;
  for (const node& a : nodes) {
    for (const node& b : nodes) {
      const buffer<std::uint64_t> from = a.allocate<std::uint64_t>(5000);
      const buffer<std::uint64_t> to = b.allocate<std::uint64_t>(5000);
      sync(a, write_pattern, from.span(), ++seed);
      copy_sync(from.subspan(1000, 2000), to.subspan(3000, 2000));
      words got(2000);
      get_sync(to.subspan(3000, 2000), got);
      const words all = pattern(5000, seed);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), all.begin() + 1000))
          << a.id() << " to " << b.id();
    }
  }
}

TEST_F(transfers, by_targets) {
  const buffer<std::uint64_t> memory = other_.allocate<std::uint64_t>(1'000'000);
  EXPECT_TRUE(sync(
      target_,
      [](remote_span<std::uint64_t> s) {
        put(pattern(s.size(), 3), s).get();
        words got(s.size());
        get_sync(s, got);
        return got == pattern(s.size(), 3);
      },
      memory.span()));
  EXPECT_TRUE(sync(other_, holds, memory.span(), std::uint64_t{3}));
}

TEST_F(transfers, from_memory_that_was_not_allocated_here) {
  // A static variable of the target, reached by cross-memory attach, or by emulated RMA.
  const auto span = sync(target_, [] {
    static words own = pattern(300'000, 9);
    return remote_span<std::uint64_t>(std::span<std::uint64_t>(own));
  });
  words got(span.size());
  get_sync(span, got);
  EXPECT_TRUE(got == pattern(span.size(), 9));
  put_sync(pattern(span.size(), 10), span);
  EXPECT_TRUE(sync(target_, holds, span, std::uint64_t{10}));
  get(span.first(7), std::span(got).first(7)).get();
  EXPECT_EQ(got[6], pattern(7, 10)[6]);
}

TEST_F(transfers, wild_addresses_are_errors) {
  const remote_span<std::uint64_t> wild(target_.id(), 0x1000, 4);
  words got(4);
  EXPECT_THROW((void)map(wild), error);
  EXPECT_THROW((void)node_at(7), error);
  const remote_span<std::uint64_t> nowhere(9, 0x1000, 4);
  EXPECT_THROW(get_sync(nowhere, got), error);
}

// ---- copies beside calls ------------------------------------------------------------------------

TEST_F(transfers, large_copies_beside_calls) {
  constexpr std::size_t n = 16U << 20; // 128 MiB
  const words sent = pattern(n, 1);
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
  future<void> under_way = put(sent, memory);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(sync(target_, [](int v) { return v; }, i), i);
  under_way.get();
  EXPECT_TRUE(sync(target_, holds, memory.span(), std::uint64_t{1}));

  words got(n);
  under_way = get(memory, got);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(sync(target_, [](int v) { return v; }, i), i);
  under_way.get();
  EXPECT_TRUE(got == sent);
}

TEST_F(transfers, a_large_copy_continues_while_its_target_is_busy) {
  handshake gate(target_);
  future<bool> busy = async(
      target_, [](handshake::words w) { return handshake::wait(w.local(), 0, 1); }, gate.span());
  constexpr std::size_t n = 4U << 20;
  const buffer<std::uint64_t> memory = job_.host().allocate<std::uint64_t>(1);
  const buffer<std::uint64_t> there = other_.allocate<std::uint64_t>(n);
  const words sent = pattern(n, 2);
  put(sent, there).get();
  EXPECT_FALSE(busy.test());
  gate.set(0);
  EXPECT_TRUE(busy.get());
}

TEST_F(transfers, put_to_a_target_that_stops_serving) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(2U << 20);
  handshake gate(target_);
  future<bool> busy = async(
      target_, [](handshake::words w) { return handshake::wait(w.local(), 0, 1); }, gate.span());
  const words sent = pattern(memory.size(), 4);
  put(sent, memory).get();
  words got(memory.size());
  get(memory, got).get();
  EXPECT_TRUE(got == sent);
  EXPECT_FALSE(busy.test());
  gate.set(0);
  EXPECT_TRUE(busy.get());
}

TEST_F(transfers, several_large_ones_at_once) {
  constexpr std::size_t n = 1U << 20;
  std::vector<buffer<std::uint64_t>> memory;
  std::vector<words> sent;
  std::vector<future<void>> under_way;
  for (std::uint64_t i = 0; i < 12; ++i) {
    memory.push_back((i % 2 == 0 ? target_ : other_).allocate<std::uint64_t>(n));
    sent.push_back(pattern(n, i));
  }
  for (std::size_t i = 0; i < 12; ++i)
    under_way.push_back(put(sent[i], memory[i]));
  (void)when_all(std::move(under_way)).get();
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_TRUE(sync(memory[i].node(), holds, memory[i].span(), std::uint64_t{i}));
  }
}

TEST_F(transfers, dropped_futures_do_not_stop_the_copy) {
  constexpr std::size_t n = 4U << 20;
  // Must outlive the copy threads, which end with the job.
  static const words sent = pattern(n, 6);
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
  (void)put(sent, memory);
  (void)put(std::span(sent).first(1), memory);
  // The last element shows that the copy has arrived; the source must live until then.
  while (map(memory).back() != sent.back() ||
         !sync(target_, holds, memory.span(), std::uint64_t{6})) {
    std::this_thread::yield();
  }
  SUCCEED();
}

TEST_F(transfers, then_after_a_large_copy) {
  constexpr std::size_t n = 2U << 20;
  const words sent = pattern(n, 8);
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
  future<bool> f = put(sent, memory).then([&](future<void> done) {
    done.get();
    return async(target_, holds, memory.span(), std::uint64_t{8});
  });
  EXPECT_TRUE(f.get());
}

TEST_F(transfers, continuations_of_a_large_copy_delay_no_other) {
  const std::size_t n = std::size_t{1} << 20;
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
  const words sent = pattern(n, 3);
  words back(n);
  // A wait of the library would help with the copy, or run its continuation.
  enum class where { nowhere, here, elsewhere };
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<where> follows{where::nowhere};
  std::atomic<bool> has_come{false};
  future<bool> first;
  do {
    follows = where::nowhere;
    first = put(sent, memory).then([&](future<void> done) {
      done.get();
      // A continuation of a copy that has ended already runs at once.
      if (std::this_thread::get_id() == caller) {
        follows = where::here;
        return false;
      }
      follows = where::elsewhere;
      return eventually([&] { return has_come.load(); });
    });
    ASSERT_TRUE(eventually([&] { return follows != where::nowhere; }));
  } while (follows == where::here);
  future<void> second = get(memory, back);
  EXPECT_TRUE(eventually([&] { return detail::future_access::state(second)->ready(); }));
  has_come = true;
  EXPECT_TRUE(first.get());
  second.get();
  EXPECT_TRUE(back == sent);
}

TEST_F(transfers, waited_for_by_other_threads) {
  constexpr std::size_t n = 2U << 20;
  const words sent = pattern(n, 8);
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(n);
  future<void> f = put(sent, memory);
  std::thread([&] { f.get(); }).join();
  EXPECT_TRUE(sync(target_, holds, memory.span(), std::uint64_t{8}));
}

// ---- map ----------------------------------------------------------------------------------------

TEST_F(transfers, map_shows_the_same_memory) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(1000);
  const std::span<std::uint64_t> here = map(memory);
  ASSERT_EQ(here.size(), 1000U);
  const words made = pattern(1000, 4);
  std::copy(made.begin(), made.end(), here.begin());
  EXPECT_TRUE(sync(target_, holds, memory.span(), std::uint64_t{4}));
  sync(target_, write_pattern, memory.span(), std::uint64_t{5});
  EXPECT_TRUE(std::equal(here.begin(), here.end(), pattern(1000, 5).begin()));

  const remote_span<const std::uint64_t> view = memory.subspan(10, 5);
  const std::span<const std::uint64_t> part = map(view);
  EXPECT_EQ(part.data(), here.data() + 10);
}

TEST_F(transfers, map_of_ones_own) {
  const buffer<int> memory = job_.host().allocate<int>(3);
  EXPECT_EQ(map(memory).data(), memory.data());
}

TEST_F(transfers, map_from_another_target) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(1000);
  sync(target_, write_pattern, memory.span(), std::uint64_t{5});
  EXPECT_TRUE(sync(
      other_,
      [](remote_span<std::uint64_t> s) {
        const std::span<std::uint64_t> here = map(s);
        const words expected = pattern(1000, 5);
        const bool same = std::equal(here.begin(), here.end(), expected.begin());
        here[0] = 99;
        return same;
      },
      memory.span()));
  EXPECT_EQ(map(memory)[0], 99U);
}

TEST_F(transfers, both_sides_use_one_counter) {
  const buffer<std::uint64_t> memory = target_.allocate<std::uint64_t>(1);
  std::uint64_t& counter = map(memory)[0];
  counter = 0;
  future<void> there = async(
      target_,
      [](remote_span<std::uint64_t> s) {
        for (int i = 0; i < 100'000; ++i)
          std::atomic_ref(s[0]).fetch_add(1);
      },
      memory.span());
  for (int i = 0; i < 100'000; ++i)
    std::atomic_ref(counter).fetch_add(1);
  there.get();
  EXPECT_EQ(counter, 200'000U);
}

} // namespace
} // namespace farcall::test::transfer_test
