// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/control_queue.hpp>
#include <farcall/transport/control_socket.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

/// Control sockets that are connected in memory.
namespace farcall::control_queue_test {
namespace {

using std::chrono::milliseconds;

std::vector<std::byte> text(std::string_view of) {
  const auto* from = reinterpret_cast<const std::byte*>(of.data());
  return {from, from + of.size()};
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

time_point in_time() { return clock::now() + test::wait_limit; }

TEST(control_queue, carries_messages_both_ways_without_a_descriptor) {
  const std::ptrdiff_t before = open_descriptors();
  auto [a, b] = control_socket::make_pair_in_memory();
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_LT(a.fd(), 0);
  EXPECT_TRUE(a.send(control::hello, text("you are node 1")));
  EXPECT_TRUE(a.send(control::start));
  EXPECT_TRUE(b.try_send(control::present, text("here")));
  const auto first = b.receive(in_time());
  const auto second = b.receive(in_time());
  const auto back = a.receive(in_time());
  ASSERT_TRUE(first && second && back);
  EXPECT_EQ(first->kind, control::hello);
  EXPECT_EQ(first->body, text("you are node 1"));
  EXPECT_EQ(second->kind, control::start);
  EXPECT_TRUE(second->body.empty());
  EXPECT_EQ(back->kind, control::present);
  EXPECT_EQ(back->body, text("here"));
}

TEST(control_queue, is_ready_with_a_message_and_with_the_end) {
  auto [a, b] = control_socket::make_pair_in_memory();
  EXPECT_FALSE(b.is_ready());
  EXPECT_FALSE(b.receive(clock::now()));
  ASSERT_TRUE(a.send(control::start));
  EXPECT_TRUE(b.is_ready());
  EXPECT_FALSE(b.has_ended());
  ASSERT_TRUE(b.receive(clock::now()));
  EXPECT_FALSE(b.is_ready());
  a.close();
  EXPECT_TRUE(b.is_ready());
  EXPECT_TRUE(b.has_ended());
}

TEST(control_queue, ends_after_the_sent_messages) {
  auto [a, b] = control_socket::make_pair_in_memory();
  ASSERT_TRUE(a.send(control::ended, text("this is why")));
  {
    const control_socket gone = std::move(a);
  }
  EXPECT_FALSE(b.has_ended());
  EXPECT_FALSE(b.send(control::start));
  EXPECT_FALSE(b.try_send(control::start));
  const auto last = b.receive(in_time());
  ASSERT_TRUE(last);
  EXPECT_EQ(last->body, text("this is why"));
  EXPECT_FALSE(b.receive(no_deadline));
}

TEST(control_queue, ends_when_another_takes_its_place) {
  auto [a, b] = control_socket::make_pair_in_memory();
  a = control_socket();
  EXPECT_TRUE(b.has_ended());
}

TEST(control_queue, has_the_capacity_of_a_socket) {
  auto [a, b] = control_socket::make_pair_in_memory();
  const std::vector<std::byte> much(60'000);
  std::size_t sent = 0;
  while (a.try_send(control::member, much))
    ASSERT_LT(++sent, 100U);
  EXPECT_GE(sent, 2U);
  // A blocked send() waits up to its deadline.
  EXPECT_FALSE(a.send(control::member, much, {}, clock::now() + milliseconds(20)));
  std::future<bool> waiting =
      std::async(std::launch::async, [&] { return a.send(control::member, much, {}, in_time()); });
  ASSERT_TRUE(b.receive(in_time()));
  EXPECT_TRUE(waiting.get());
  for (std::size_t i = 0; i < sent; ++i)
    ASSERT_TRUE(b.receive(clock::now()));
  EXPECT_FALSE(b.is_ready());
}

TEST(control_queue, the_end_wakes_waiting_threads) {
  auto [a, b] = control_socket::make_pair_in_memory();
  std::future<bool> receiving =
      std::async(std::launch::async, [&] { return b.receive(no_deadline).has_value(); });
  std::this_thread::sleep_for(milliseconds(5));
  a.close();
  EXPECT_FALSE(receiving.get());

  auto [c, d] = control_socket::make_pair_in_memory();
  while (c.try_send(control::member, std::vector<std::byte>(60'000))) {
  }
  std::future<bool> sending = std::async(
      std::launch::async, [&] { return c.send(control::member, std::vector<std::byte>(60'000)); });
  std::this_thread::sleep_for(milliseconds(5));
  d.close();
  EXPECT_FALSE(sending.get());
}

TEST(control_queue, refuses_descriptors_and_messages_that_are_too_long) {
  auto [a, b] = control_socket::make_pair_in_memory();
  const std::array files{0};
  EXPECT_THROW(a.send(control::memory, {}, files), error);
  EXPECT_THROW(a.send(control::memory, std::vector<std::byte>(64 << 10)), error);
  EXPECT_FALSE(b.is_ready());
}

TEST(control_queue, calls_back_each_time_it_becomes_ready) {
  auto [a, b] = control_socket::make_pair_in_memory();
  ASSERT_TRUE(a.send(control::start));
  int calls = 0;
  b.on_arrival([&] { ++calls; });
  EXPECT_EQ(calls, 1) << "it was ready already";
  ASSERT_TRUE(a.send(control::start));
  EXPECT_EQ(calls, 1) << "it still was";
  ASSERT_TRUE(b.receive(clock::now()));
  ASSERT_TRUE(b.receive(clock::now()));
  ASSERT_TRUE(a.send(control::start));
  EXPECT_EQ(calls, 2);
  ASSERT_TRUE(b.receive(clock::now()));
  a.close();
  EXPECT_EQ(calls, 3) << "of the end";
}

TEST(control_queue, does_not_call_back_a_closed_end) {
  auto [a, b] = control_socket::make_pair_in_memory();
  int calls = 0;
  b.on_arrival([&] { ++calls; });
  b.close();
  EXPECT_FALSE(a.send(control::start));
  a.close();
  EXPECT_EQ(calls, 0);
}

TEST(control_queue, loses_no_messages_of_several_threads) {
  constexpr std::uint32_t senders = 4;
  constexpr std::uint32_t messages = 2'000;
  auto [a, b] = control_socket::make_pair_in_memory();
  std::atomic<int> arrivals{0};
  b.on_arrival([&] { arrivals.fetch_add(1, std::memory_order_release); });
  std::vector<std::thread> threads;
  for (std::uint32_t who = 0; who < senders; ++who) {
    threads.emplace_back([&, who] {
      for (std::uint32_t n = 0; n < messages; ++n) {
        const std::array body{who, n};
        EXPECT_TRUE(a.send(control::transport, std::as_bytes(std::span(body)), {}, in_time()));
      }
    });
  }
  std::array<std::uint32_t, senders> next{};
  std::uint32_t got = 0;
  while (got < senders * messages && !::testing::Test::HasFailure()) {
    // Like a reader that polls only after a notification.
    ASSERT_TRUE(test::eventually([&] { return arrivals.exchange(0) != 0; }));
    while (b.is_ready()) {
      const auto m = b.receive(clock::now());
      ASSERT_TRUE(m);
      std::array<std::uint32_t, 2> body{};
      ASSERT_EQ(m->body.size(), sizeof body);
      std::memcpy(body.data(), m->body.data(), sizeof body);
      EXPECT_EQ(body[1], next.at(body[0])++);
      ++got;
    }
  }
  for (std::thread& t : threads)
    t.join();
}

} // namespace
} // namespace farcall::control_queue_test
