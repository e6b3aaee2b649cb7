// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/line_forwarder.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>

namespace farcall::tcp::output_relay_test {
namespace {

using namespace test_support;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// Collects the output, and the callbacks to call once it is written.
class sink_stub final : public output_sink {
 public:
  void take(node_id node, output_stream stream, std::string_view bytes,
            std::function<void(std::size_t bytes)> written) override {
    const std::lock_guard guard(mutex_);
    text_ += std::to_string(node) + (stream == output_stream::output ? " out " : " err ");
    text_ += bytes;
    written_.emplace_back(std::move(written), bytes.size());
  }
  void read(node_id /*node*/, output_stream /*stream*/, unique_fd /*from*/) override {}
  void end(node_id /*node*/) noexcept override {}

  std::string text() {
    const std::lock_guard guard(mutex_);
    return text_;
  }
  std::size_t taken() {
    const std::lock_guard guard(mutex_);
    return written_.size();
  }
  void write_all() {
    const std::lock_guard guard(mutex_);
    for (const auto& [tell, bytes] : std::exchange(written_, {}))
      tell(bytes);
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::vector<std::pair<std::function<void(std::size_t bytes)>, std::size_t>> written_;
};

/// A relay whose far side is the test's connection.
class output_relay_test : public ::testing::Test {
 protected:
  output_relay_test() {
    auto [ours, theirs] = control_socket::make_pair();
    near_ = std::move(ours);
    auto [our_end, its_end] = tcp_pair();
    far_ = plain_stream(std::move(our_end));
    relay_ = std::make_shared<relay>(
        *loop_, std::move(theirs), plain_stream(std::move(its_end)), milliseconds(60'000),
        [this](control_socket& /*near*/, const std::string& why) { end_.set_value(why); });
  }
  // The relay's timers end with the loop.
  ~output_relay_test() override { loop_->stop(); }

  /// Runs `what` on the loop's thread, and waits for it.
  template <class F>
  void on_its_thread(F what) {
    std::promise<void> done;
    loop_->post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  void send(control kind, const std::vector<std::byte>& body) {
    const frame_header header{static_cast<std::uint32_t>(body.size()),
                              static_cast<std::uint32_t>(kind)};
    bytes frame(sizeof header);
    std::memcpy(frame.data(), &header, sizeof header);
    frame.insert(frame.end(), body.begin(), body.end());
    ASSERT_EQ(write_all(*far_, frame), io_status::done);
  }
  void send_output(std::string_view text, output_stream stream = output_stream::output) {
    send(control::output, messages::output{stream, text}.encode());
  }

  /// Returns the next message other than a heartbeat.
  std::pair<control, bytes> next_from_far() {
    for (;;) {
      frame_header header;
      const bytes head = received(*far_, sizeof header);
      std::memcpy(&header, head.data(), sizeof header);
      bytes body = received(*far_, header.bytes);
      if (header.kind != 0 || ::testing::Test::HasFailure())
        return {static_cast<control>(header.kind), std::move(body)};
    }
  }
  /// Returns the target's output once `bytes_wanted` bytes have arrived.
  std::string output_from_far(std::size_t bytes_wanted) {
    std::string text;
    while (text.size() < bytes_wanted && !::testing::Test::HasFailure()) {
      const auto [kind, body] = next_from_far();
      EXPECT_EQ(kind, control::output);
      text += messages::output::decode(body).bytes;
    }
    return text;
  }

  std::shared_ptr<event_loop> loop_ = std::make_shared<event_loop>("output-test");
  control_socket near_;
  std::unique_ptr<stream> far_;
  std::shared_ptr<relay> relay_;
  std::promise<std::string> end_;
};

// ---- the host -----------------------------------------------------------------------------------

TEST_F(output_relay_test, the_host_takes_output_and_forwards_other_messages) {
  sink_stub sink;
  receive_output(loop_, relay_, 5, &sink);
  relay_->start();
  send_output("a line\n");
  send(control::start, {});
  send_output("wrong\n", output_stream::error);
  const auto got = near_.receive(soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, control::start);
  EXPECT_TRUE(test::eventually([&] { return sink.text() == "5 out a line\n5 err wrong\n"; }));
}

TEST_F(output_relay_test, the_host_reports_written_bytes_in_batches) {
  sink_stub sink;
  receive_output(loop_, relay_, 5, &sink);
  relay_->start();
  const std::string piece(output_window / 8, 'p');
  send_output("a line\n");
  send_output(piece);
  send_output(piece);
  ASSERT_TRUE(test::eventually([&] { return sink.taken() == 3; }));
  sink.write_all();
  const auto [kind, body] = next_from_far();
  EXPECT_EQ(kind, control::written);
  EXPECT_EQ(messages::written::decode(body).bytes, 2 * piece.size() + 7);
}

TEST_F(output_relay_test, a_server_that_ignores_the_window_is_disconnected) {
  sink_stub sink;
  receive_output(loop_, relay_, 5, &sink);
  relay_->start();
  const std::string piece(60'000, 'p');
  std::size_t sent = 0;
  for (; sent <= output_window + 2 * last_output; sent += piece.size())
    send_output(piece);
  EXPECT_THAT(end_.get_future().get(), HasSubstr("more of what its target prints"));
  EXPECT_LT(sink.text().size(), sent);
}

TEST_F(output_relay_test, a_server_that_sends_empty_output_is_disconnected) {
  sink_stub sink;
  receive_output(loop_, relay_, 5, &sink);
  relay_->start();
  send_output("");
  EXPECT_THAT(end_.get_future().get(), HasSubstr("output that is empty"));
}

TEST_F(output_relay_test, output_without_a_sink_is_reported_as_written) {
  receive_output(loop_, relay_, 5, nullptr);
  relay_->start();
  send_output(std::string(32'768, 'p'));
  send_output(std::string(32'768, 'p'));
  EXPECT_EQ(next_from_far().first, control::written);
}

// ---- the server ---------------------------------------------------------------------------------

/// A sender, and the pipes' ends of its target.
class output_sender_test : public output_relay_test {
 protected:
  output_sender_test() {
    relay_->start();
    on_its_thread([&] {
      sender_ = std::make_shared<output_sender>(*loop_);
      const child_output ends = sender_->ends();
      output_ = unique_fd(::fcntl(ends.output, F_DUPFD_CLOEXEC, 0));
      error_ = unique_fd(::fcntl(ends.error, F_DUPFD_CLOEXEC, 0));
      sender_->start(relay_);
    });
  }
  ~output_sender_test() override {
    on_its_thread([&] { sender_.reset(); });
  }

  std::shared_ptr<output_sender> sender_;
  unique_fd output_;
  unique_fd error_;
};

TEST_F(output_sender_test, sends_both_streams) {
  ASSERT_TRUE(farcall::write_all(error_.get(), "wrong"));
  const auto [kind, body] = next_from_far();
  EXPECT_EQ(kind, control::output);
  EXPECT_EQ(messages::output::decode(body).stream, output_stream::error);
  EXPECT_EQ(messages::output::decode(body).bytes, "wrong");
  ASSERT_TRUE(farcall::write_all(output_.get(), "right"));
  EXPECT_EQ(output_from_far(5), "right");
}

TEST_F(output_sender_test, sends_no_more_than_the_host_writes) {
  const std::string much(3 * output_window, 'm');
  std::atomic<bool> is_written{false};
  std::thread printer([&] {
    EXPECT_TRUE(farcall::write_all(output_.get(), much));
    is_written = true;
  });
  EXPECT_EQ(output_from_far(output_window).size(), output_window);
  // The sender stops at the window, although more output is available.
  pollfd readable{far_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 20), 0);
  EXPECT_FALSE(is_written);
  std::size_t got = output_window;
  while (got < much.size()) {
    on_its_thread([&] { sender_->note_written(messages::written{65'536}.encode()); });
    got += output_from_far(65'536).size();
  }
  printer.join();
  EXPECT_EQ(got, much.size());
}

TEST_F(output_sender_test, sends_the_last_output_even_without_space) {
  ASSERT_TRUE(farcall::write_all(output_.get(), std::string(output_window / 2, '1')));
  ASSERT_EQ(output_from_far(output_window / 2).size(), output_window / 2);
  ASSERT_TRUE(farcall::write_all(output_.get(), std::string(output_window / 2, '2')));
  ASSERT_EQ(output_from_far(output_window / 2).size(), output_window / 2);
  ASSERT_TRUE(farcall::write_all(output_.get(), "last"));
  ASSERT_TRUE(farcall::write_all(error_.get(), "words"));
  on_its_thread([&] {
    sender_->finish();
    relay_->finish_far(control::ended, messages::ended{"killed", -1}.encode());
  });
  EXPECT_EQ(output_from_far(9), "lastwords");
  EXPECT_EQ(next_from_far().first, control::ended);
}

TEST_F(output_sender_test, refuses_reports_of_more_bytes_than_sent) {
  on_its_thread([&] {
    EXPECT_THROW(sender_->note_written(messages::written{1}.encode()), malformed_message);
  });
}

TEST_F(output_sender_test, continues_when_one_stream_is_closed) {
  output_.reset();
  ASSERT_TRUE(farcall::write_all(error_.get(), "still"));
  EXPECT_EQ(output_from_far(5), "still");
}

} // namespace
} // namespace farcall::tcp::output_relay_test
