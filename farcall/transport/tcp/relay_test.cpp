// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/ioctl.h>

namespace farcall::relay_test {
namespace {

using namespace tcp::test_support;
using std::chrono::milliseconds;

bytes frame(control kind, const std::string& body) {
  const frame_header header{static_cast<std::uint32_t>(body.size()),
                            static_cast<std::uint32_t>(kind)};
  bytes made(sizeof header);
  std::memcpy(made.data(), &header, sizeof header);
  const bytes text = bytes_of(body);
  made.insert(made.end(), text.begin(), text.end());
  return made;
}

/// A relay with the test's socket on each side; the near one may be connected in memory.
class relays : public ::testing::TestWithParam<bool> {
 protected:
  relays() {
    auto [ours, theirs] =
        GetParam() ? control_socket::make_pair_in_memory() : control_socket::make_pair();
    near_ = std::move(ours);
    auto [our_end, its_end] = tcp_pair();
    far_ = tcp::plain_stream(std::move(our_end));
    its_far_fd_ = its_end.get();
    relay_ = std::make_shared<relay>(
        loop_, std::move(theirs), tcp::plain_stream(std::move(its_end)), milliseconds(60'000),
        [this](control_socket& /*near*/, const std::string& why) { end_.set_value(why); });
  }
  // The relay's timers end with the loop.
  ~relays() override { loop_.stop(); }

  /// Runs `what` on the loop's thread, and waits for it.
  template <class F>
  void on_its_thread(F what) {
    std::promise<void> done;
    loop_.post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  /// Returns the next message other than a heartbeat.
  std::string next_from_far() {
    for (;;) {
      frame_header header;
      const bytes head = received(*far_, sizeof header);
      std::memcpy(&header, head.data(), sizeof header);
      const bytes body = received(*far_, header.bytes);
      if (header.kind != 0 || ::testing::Test::HasFailure()) {
        return {reinterpret_cast<const char*>(body.data()), body.size()};
      }
    }
  }

  /// Sends the same bytes from the far side until they block, at most 64 MiB; returns their number.
  std::size_t send_until_nobody_takes_more(const bytes& one) {
    std::size_t sent = 0;
    while (sent < (std::size_t{64} << 20)) {
      const tcp::io_result put = write_from(*far_, one, sent % one.size());
      if (put.status == tcp::io_status::would_block) {
        pollfd waiting{far_->fd(), POLLOUT, 0};
        if (::poll(&waiting, 1, 300) == 0) break;
        continue;
      }
      EXPECT_EQ(put.status, tcp::io_status::done);
      if (put.status != tcp::io_status::done) break;
      sent += put.bytes;
    }
    return sent;
  }

  event_loop loop_{"relay-test"};
  control_socket near_;
  std::unique_ptr<tcp::stream> far_;
  int its_far_fd_ = -1; ///< descriptor of the relay's end
  std::shared_ptr<relay> relay_;
  std::promise<std::string> end_;
};

TEST(relay_silence, is_counted_only_while_the_loop_runs) {
  constexpr milliseconds timeout{20};
  event_loop loop;
  auto [near, theirs] = control_socket::make_pair();
  auto [far, its_far] = tcp_pair();
  std::optional<std::string> end;
  const auto made = std::make_shared<relay>(
      loop, std::move(theirs), tcp::plain_stream(std::move(its_far)), timeout,
      [&end](control_socket& /*near*/, const std::string& why) { end = why; });
  made->start();
  loop.turn(clock::now());
  std::this_thread::sleep_for(5 * timeout);
  loop.turn(clock::now());
  EXPECT_FALSE(end) << *end;
  EXPECT_TRUE(test::eventually([&] {
    loop.turn(clock::now());
    return end.has_value();
  }));
  EXPECT_EQ(end, "it was silent for 20 ms");
}

TEST_P(relays, carries_messages_both_ways) {
  relay_->start();
  ASSERT_TRUE(near_.send(control::joined, bytes_of("from near")));
  EXPECT_EQ(next_from_far(), "from near");
  ASSERT_EQ(write_all(*far_, frame(control::start, "from far")), tcp::io_status::done);
  const auto got = near_.receive(soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, control::start);
  EXPECT_EQ(got->body, bytes_of("from far"));
}

TEST_P(relays, begin_with_the_given_message) {
  relay_->begin_with(control::request, bytes_of("first"));
  ASSERT_TRUE(near_.send(control::joined, bytes_of("second")));
  relay_->start();
  frame_header header;
  const bytes head = received(*far_, sizeof header);
  std::memcpy(&header, head.data(), sizeof header);
  EXPECT_EQ(header.kind, static_cast<std::uint32_t>(control::request));
  EXPECT_EQ(received(*far_, header.bytes), bytes_of("first"));
  EXPECT_EQ(next_from_far(), "second");
}

/// Closing a socket with unread bytes resets the connection, which would lose the exit reason.
TEST_P(relays, the_exit_reason_arrives_despite_unread_bytes) {
  relay_->start();
  // The near side does not read, so that some bytes stay in the relay's socket.
  const bytes one = frame(control::member, std::string(1000, 'm'));
  (void)send_until_nobody_takes_more(one);
  on_its_thread([&] { relay_->finish_far(control::ended, bytes_of("this is why")); });
  EXPECT_EQ(next_from_far(), "this is why");
  EXPECT_EQ(end_of(*far_), tcp::io_status::closed) << far_->failure();
  far_->finish();
  EXPECT_EQ(end_.get_future().get(), "");
}

TEST_P(relays, messages_before_the_end_wait_for_space) {
  relay_->start();
  constexpr int messages = 1300;
  for (int i = 0; i < messages; ++i) {
    const auto text = std::to_string(i) + std::string(1000, '.');
    // Some messages find no space before the near side reads.
    bytes one = frame(control::member, text);
    if (i == messages - 1) one = frame(control::ended, "this is why");
    std::size_t at = 0;
    while (at < one.size()) {
      const tcp::io_result put = write_from(*far_, one, at);
      if (put.status != tcp::io_status::would_block) {
        ASSERT_EQ(put.status, tcp::io_status::done);
        at += put.bytes;
        continue;
      }
      wait_to_write(*far_);
    }
  }
  far_.reset();
  int got = 0;
  std::optional<control_message> last;
  while (auto message = near_.receive(soon())) {
    ++got;
    last = std::move(message);
  }
  EXPECT_EQ(got, messages);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, control::ended);
  EXPECT_EQ(last->body, bytes_of("this is why"));
  EXPECT_EQ(end_.get_future().get(), "");
}

TEST_P(relays, end_after_the_near_sides_last_message) {
  relay_->start();
  constexpr int messages = 300;
  for (int i = 0; i < messages; ++i)
    ASSERT_TRUE(near_.send(control::joined, bytes_of(std::to_string(i)), {}, soon()));
  near_.close();
  for (int i = 0; i < messages; ++i)
    ASSERT_EQ(next_from_far(), std::to_string(i));
  EXPECT_EQ(end_of(*far_), tcp::io_status::closed);
  EXPECT_EQ(end_.get_future().get(), "");
}

/// Bytes that the far side does not take fill the relay up to a limit, and then the near side.
TEST_P(relays, block_the_near_side_if_the_far_side_blocks) {
  relay_->start();
  const bytes much(60'000);
  int sent = 0;
  while (near_.send(control::joined, much, {}, clock::now() + milliseconds(300)))
    ASSERT_LT(++sent, 1'000);
  EXPECT_GT(sent, 60);
  for (int i = 0; i < sent; ++i)
    ASSERT_EQ(next_from_far().size(), much.size());
  ASSERT_TRUE(near_.send(control::joined, bytes_of("and on"), {}, soon()));
  EXPECT_EQ(next_from_far(), "and on");
}

/// All connections of a process share one thread. A posted task must run before all bytes that
/// arrive meanwhile are read.
TEST_P(relays, let_other_events_run_while_bytes_arrive) {
  const std::size_t sent = send_until_nobody_takes_more(bytes(std::size_t{1} << 20));
  ASSERT_GT(sent, std::size_t{1} << 20);
  std::promise<int> unread;
  // Post both tasks one after the other, with no task between them.
  on_its_thread([&] {
    relay_->start();
    loop_.post([&] {
      int arrived = 0;
      int not_yet = 0;
      EXPECT_EQ(::ioctl(its_far_fd_, FIONREAD, &arrived), 0);
      EXPECT_EQ(::ioctl(far_->fd(), TIOCOUTQ, &not_yet), 0);
      unread.set_value(arrived + not_yet);
    });
  });
  EXPECT_GT(unread.get_future().get(), 0);
  ASSERT_TRUE(near_.send(control::joined, bytes_of("meanwhile")));
  EXPECT_EQ(next_from_far(), "meanwhile");
}

/// Long messages that the near side does not take are limited by bytes, even if they are few.
TEST_P(relays, block_a_far_side_whose_long_messages_wait) {
  relay_->start();
  const bytes one = frame(control::member, std::string(60'000, 'm'));
  const std::size_t sent = send_until_nobody_takes_more(one);
  // Buffers of the relay and of both sockets, and the growth of the system's buffers.
  EXPECT_LT(sent, std::size_t{24} << 20);
}

INSTANTIATE_TEST_SUITE_P(with, relays, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "memory" : "sockets"; });

} // namespace
} // namespace farcall::relay_test
