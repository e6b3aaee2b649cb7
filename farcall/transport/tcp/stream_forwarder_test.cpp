// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/stream_forwarder.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tcp::stream_forwarder_test {
namespace {

using namespace test_support;

/// Two connections that are forwarded to each other; the test has their other ends.
class stream_forwarder_test : public testing::Test {
 protected:
  stream_forwarder_test() {
    auto [a, near_a] = tcp_pair();
    auto [b, near_b] = tcp_pair();
    a_ = std::move(a);
    b_ = std::move(b);
    make_blocking(a_);
    make_blocking(b_);
    const bytes first_a = bytes_of("to a: ");
    const bytes first_b = bytes_of("to b: ");
    forward_streams(loop_, {plain_stream(std::move(near_a)), first_a},
                    {plain_stream(std::move(near_b)), first_b});
  }

  static void make_blocking(const unique_fd& socket) {
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
    const timeval limit{30, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  static void say(const unique_fd& to, const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t put = ::send(to.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
      ASSERT_GT(put, 0);
      at += static_cast<std::size_t>(put);
    }
  }
  /// Returns `size` bytes, or fewer if the connection ends.
  static std::string receive(const unique_fd& from, std::size_t size) {
    std::string all(size, '\0');
    const ssize_t got = ::recv(from.get(), all.data(), size, MSG_WAITALL);
    all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return all;
  }

  event_loop loop_{"farcall-test"};
  unique_fd a_;
  unique_fd b_;
};

TEST_F(stream_forwarder_test, begins_with_the_given_bytes) {
  say(a_, "from a");
  say(b_, "from b");
  EXPECT_EQ(receive(b_, 12), "to b: from a");
  EXPECT_EQ(receive(a_, 12), "to a: from b");
}

TEST_F(stream_forwarder_test, forwards_more_than_its_buffers_both_ways_at_once) {
  const std::string large(20'000'000, 'x');
  std::thread sender_a([&] { say(a_, large); });
  std::thread sender_b([&] { say(b_, large); });
  std::string at_b;
  std::thread reader_b([&] { at_b = receive(b_, large.size() + 6); });
  EXPECT_EQ(receive(a_, large.size() + 6), "to a: " + large);
  reader_b.join();
  sender_a.join();
  sender_b.join();
  EXPECT_EQ(at_b, "to b: " + large);
}

TEST_F(stream_forwarder_test, reads_no_more_than_the_other_side_takes) {
  const int flags = ::fcntl(a_.get(), F_GETFL);
  ::fcntl(a_.get(), F_SETFL, flags | O_NONBLOCK);
  const std::string piece(1 << 16, 'x');
  std::size_t taken = 0;
  constexpr std::size_t more_than_systems_buffer = std::size_t{256} << 20;
  // Ends after some time without progress; the other end does not read.
  for (int misses = 0; misses < 50 && taken < more_than_systems_buffer;) {
    const ssize_t put = ::send(a_.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (put > 0) {
      taken += static_cast<std::size_t>(put);
      misses = 0;
    } else {
      ++misses;
      ::usleep(1000);
    }
  }
  EXPECT_LT(taken, more_than_systems_buffer);
}

TEST_F(stream_forwarder_test, forwards_the_end_of_one_direction_only) {
  say(a_, "last bytes");
  ::shutdown(a_.get(), SHUT_WR);
  EXPECT_EQ(receive(b_, 100), "to b: last bytes");
  say(b_, "and the reply");
  ::shutdown(b_.get(), SHUT_WR);
  EXPECT_EQ(receive(a_, 100), "to a: and the reply");
}

TEST_F(stream_forwarder_test, ends_both_where_one_is_broken) {
  EXPECT_EQ(receive(b_, 6), "to b: ");
  const linger now{1, 0};
  ::setsockopt(a_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  a_.reset();
  EXPECT_EQ(receive(b_, 100), "");
}

} // namespace
} // namespace farcall::tcp::stream_forwarder_test
