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

/// A relay with a socket of ours on each side; the near one may be joined to it in memory.
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
  // The relay's timers end with it.
  ~relays() override { loop_.stop(); }

  /// Runs it where the relay lives, and waits for it.
  template <class F>
  void on_its_thread(F what) {
    std::promise<void> done;
    loop_.post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  /// The next message other than a heartbeat.
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

  /// From the far side, the same again and again, but no more than 64 MiB; returns how many bytes.
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

  tcp::reactor loop_{"relay-test"};
  control_socket near_;
  std::unique_ptr<tcp::stream> far_;
  int its_far_fd_ = -1; ///< of the relay's end
  std::shared_ptr<relay> relay_;
  std::promise<std::string> end_;
};

TEST(relay_silence, is_counted_while_somebody_listens) {
  constexpr milliseconds timeout{20};
  tcp::reactor loop;
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

TEST_P(relays, begins_with_what_it_was_told_to_begin_with) {
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

/// A socket that is closed with something in it that nobody has read breaks its connection off.
TEST_P(relays, last_words_arrive_though_nobody_reads_what_comes) {
  relay_->start();
  // Nobody takes them at the near side, so that some stay where they are.
  const bytes one = frame(control::member, std::string(1000, 'm'));
  (void)send_until_nobody_takes_more(one);
  on_its_thread([&] { relay_->finish_far(control::ended, bytes_of("this is why")); });
  EXPECT_EQ(next_from_far(), "this is why");
  EXPECT_EQ(end_of(*far_), tcp::io_status::closed) << far_->failure();
  far_->finish();
  EXPECT_EQ(end_.get_future().get(), "");
}

TEST_P(relays, what_was_said_before_the_end_waits_for_room) {
  relay_->start();
  constexpr int messages = 1300;
  for (int i = 0; i < messages; ++i) {
    const auto text = std::to_string(i) + std::string(1000, '.');
    // Some of it fits nowhere before the near side reads.
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

TEST_P(relays, end_with_the_near_side_behind_what_it_has_said) {
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

/// What the far side does not take fills the relay and then the near side, and no more memory.
TEST_P(relays, hold_back_a_near_side_while_the_far_one_takes_nothing) {
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

/// One thread serves all connections of a process. What is posted comes before everything was read
/// that has come meanwhile.
TEST_P(relays, let_others_have_their_turn_while_there_is_much_to_read) {
  const std::size_t sent = send_until_nobody_takes_more(bytes(std::size_t{1} << 20));
  ASSERT_GT(sent, std::size_t{1} << 20);
  std::promise<int> unread;
  // One behind the other, and nothing between them.
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

/// However few they are, long messages that nobody takes are not worth more memory.
TEST_P(relays, hold_back_a_far_side_whose_long_messages_nobody_takes) {
  relay_->start();
  const bytes one = frame(control::member, std::string(60'000, 'm'));
  const std::size_t sent = send_until_nobody_takes_more(one);
  // The relay's, both sides' sockets, and what the system adds of its own accord.
  EXPECT_LT(sent, std::size_t{24} << 20);
}

INSTANTIATE_TEST_SUITE_P(with, relays, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "memory" : "sockets"; });

} // namespace
} // namespace farcall::relay_test
