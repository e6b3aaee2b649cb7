// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace farcall::tcp::stream_test {
namespace {

using namespace test_support;
using ::testing::HasSubstr;

struct ends {
  std::unique_ptr<stream> a;
  std::unique_ptr<stream> b;
};

ends connected() {
  auto [client, server] = tcp_pair();
  return {plain_stream(std::move(client)), plain_stream(std::move(server))};
}

ends in_this_machine() {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  return {plain_stream(unique_fd(pair[0])), plain_stream(unique_fd(pair[1]))};
}

/// Resets the connection instead of closing it in order.
void break_off(std::unique_ptr<stream>& s) {
  const linger at_once{1, 0};
  ASSERT_EQ(::setsockopt(s->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  s.reset();
}

TEST(plain_stream, carries_bytes_both_ways) {
  for (ends (*make)() : {&connected, &in_this_machine}) {
    auto [a, b] = make();
    EXPECT_TRUE(a->is_established());
    ASSERT_EQ(write_all(*a, bytes_of("there")), io_status::done);
    EXPECT_EQ(received(*b, 5), bytes_of("there"));
    ASSERT_EQ(write_all(*b, bytes_of("and back")), io_status::done);
    EXPECT_EQ(received(*a, 8), bytes_of("and back"));
  }
}

TEST(plain_stream, gathers_and_scatters) {
  auto [a, b] = connected();
  const bytes text = bytes_of("one two three");
  const iovec out[] = {{nullptr, 0},
                       {const_cast<std::byte*>(text.data()), 4},
                       {nullptr, 0},
                       {const_cast<std::byte*>(text.data() + 4), 9}};
  const io_result put = a->write(out);
  ASSERT_EQ(put.status, io_status::done);
  EXPECT_EQ(put.bytes, text.size());
  wait_to_read(*b);
  bytes first(5);
  bytes second(100);
  const iovec in[] = {{nullptr, 0}, part_of(first), {nullptr, 0}, part_of(second)};
  const io_result got = b->read(in);
  ASSERT_EQ(got.status, io_status::done);
  EXPECT_EQ(got.bytes, text.size());
  EXPECT_EQ(first, bytes_of("one t"));
  second.resize(8);
  EXPECT_EQ(second, bytes_of("wo three"));
}

TEST(plain_stream, takes_more_parts_than_one_system_call) {
  auto [a, b] = connected();
  const bytes data = content(5000, 1);
  std::vector<iovec> parts;
  for (std::size_t at = 0; at < data.size(); ++at)
    parts.push_back({const_cast<std::byte*>(data.data()) + at, 1});
  std::size_t sent = 0;
  while (sent < parts.size()) {
    const io_result put = a->write(std::span(parts).subspan(sent));
    ASSERT_EQ(put.status, io_status::done) << a->failure();
    sent += put.bytes;
  }
  EXPECT_EQ(received(*b, data.size()), data);
}

TEST(plain_stream, parts_without_bytes_are_no_end) {
  auto [a, b] = connected();
  const iovec nothing{nullptr, 0};
  for (const std::span<const iovec> parts : {std::span<const iovec>(), {&nothing, 1}}) {
    EXPECT_EQ(a->read(parts).status, io_status::done);
    EXPECT_EQ(a->write(parts).status, io_status::done);
  }
}

TEST(plain_stream, never_blocks) {
  auto [a, b] = connected();
  bytes to(10);
  EXPECT_EQ(read_into(*a, to).status, io_status::would_block);
  const bytes data = content(1 << 20, 1);
  std::size_t sent = 0;
  io_result put;
  while ((put = write_from(*a, data, sent % data.size())).status == io_status::done)
    sent += put.bytes;
  EXPECT_EQ(put.status, io_status::would_block);
  bytes got = received(*b, sent);
  for (std::size_t at = 0; at < sent; at += data.size())
    ASSERT_EQ(std::memcmp(got.data() + at, data.data(), std::min(data.size(), sent - at)), 0);
  EXPECT_TRUE(test::eventually([&] {
    return write_from(*a, data, sent % data.size()).status == io_status::done;
  })) << "there is space again";
}

TEST(plain_stream, waits_for_a_socket_that_is_connecting) {
  const auto listeners = listen_on({"127.0.0.1", 0});
  const auto a = plain_stream(start_connect(resolve(local_address(listeners[0].get()))[0]));
  // On loopback it may be connected by now; neither case is a failure.
  ASSERT_EQ(write_all(*a, bytes_of("x")), io_status::done) << a->failure();
}

TEST(plain_stream, an_orderly_close_differs_from_a_reset) {
  auto [a, b] = connected();
  ASSERT_EQ(write_all(*a, bytes_of("last bytes")), io_status::done);
  a->finish();
  EXPECT_EQ(received(*b, 10), bytes_of("last bytes"));
  EXPECT_EQ(end_of(*b), io_status::closed);
  EXPECT_EQ(end_of(*b), io_status::closed);
  // The other direction stays open.
  ASSERT_EQ(write_all(*b, bytes_of("still here")), io_status::done);
  EXPECT_EQ(received(*a, 10), bytes_of("still here"));
  break_off(b);
  EXPECT_EQ(end_of(*a), io_status::failed);
  EXPECT_THAT(a->failure(), HasSubstr(std::strerror(ECONNRESET)));
}

TEST(plain_stream, a_reset_seen_by_the_writer_fails_reads) {
  auto [a, b] = connected();
  break_off(b);
  const bytes data = bytes_of("x");
  EXPECT_TRUE(test::eventually([&] { return write_from(*a, data).status == io_status::failed; }));
  EXPECT_EQ(end_of(*a), io_status::failed);
  EXPECT_EQ(write_from(*a, data).status, io_status::failed);
  EXPECT_THAT(a->failure(), HasSubstr(std::strerror(ECONNRESET))) << "the cause, not what follows";
}

TEST(plain_stream, writing_after_the_end_fails_without_a_signal) {
  auto [a, b] = in_this_machine();
  b.reset();
  EXPECT_EQ(write_from(*a, bytes_of("x")).status, io_status::failed);
  EXPECT_THAT(a->failure(), HasSubstr(std::strerror(EPIPE)));
  EXPECT_EQ(end_of(*a), io_status::closed);
}

TEST(plain_stream, reports_a_missing_listener) {
  auto listeners = listen_on({"127.0.0.1", 0});
  const socket_address at = resolve(local_address(listeners[0].get()))[0];
  listeners.clear();
  try {
    const auto a = plain_stream(start_connect(at));
    EXPECT_EQ(end_of(*a), io_status::failed);
    EXPECT_THAT(a->failure(), HasSubstr("farcall serve"));
  } catch (const error& e) {
    // Loopback may report the failure at once.
    EXPECT_THAT(e.what(), HasSubstr("farcall serve"));
  }
}

TEST(plain_stream, large_transfers_both_ways_at_once) {
  auto [a, b] = connected();
  const std::size_t size = test::under_sanitizer ? 4 << 20 : 32 << 20;
  const bytes there = content(size, 1);
  const bytes back = content(size, 2);
  std::thread sends_there([&, &to = *a] { EXPECT_EQ(write_all(to, there), io_status::done); });
  std::thread sends_back([&, &to = *b] { EXPECT_EQ(write_all(to, back), io_status::done); });
  bytes got_back(size);
  std::thread receives([&, &from = *a] { EXPECT_EQ(read_all(from, got_back), io_status::done); });
  const bytes got_there = received(*b, size);
  sends_there.join();
  sends_back.join();
  receives.join();
  EXPECT_TRUE(got_there == there);
  EXPECT_TRUE(got_back == back);
}

} // namespace
} // namespace farcall::tcp::stream_test
