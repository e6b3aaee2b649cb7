#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

using namespace test_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// An address that does not reply: a listener's whose queue is full.
class silent_address {
 public:
  silent_address() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    for (int i = 0; i < 4; ++i)
      waiting_.push_back(start_connect(where()));
  }
  [[nodiscard]] socket_address where() const {
    return resolve(local_address(listener_.get())).front();
  }

 private:
  unique_fd listener_;
  std::vector<unique_fd> waiting_;
};

class connect_attempts_test : public ::testing::Test {
 protected:
  [[nodiscard]] socket_address live() const {
    return resolve(local_address(listeners_.front().get())).front();
  }
  /// Nobody listens there any more.
  [[nodiscard]] static socket_address dead() {
    const auto listeners = listen_on({"127.0.0.1", 0});
    return resolve(local_address(listeners.front().get())).front();
  }

  silent_address silent_;
  std::vector<unique_fd> listeners_ = listen_on({"127.0.0.1", 0});
};

TEST_F(connect_attempts_test, go_on_to_the_next_address_where_one_is_silent_or_refuses) {
  const unique_fd made = connect_to_first({silent_.where(), dead(), live()}, "it", soon());
  EXPECT_EQ(peer_text(made.get()), live().text());
}

TEST_F(connect_attempts_test, say_what_became_of_each_address) {
  const socket_address refuses = dead();
  EXPECT_THAT(
      [&] {
        (void)connect_to_first({silent_.where(), refuses}, "it",
                               clock::now() + std::chrono::milliseconds(400));
      },
      ThrowsMessage<timeout>(AllOf(HasSubstr("cannot connect to it ("),
                                   HasSubstr(refuses.text() + ": Connection refused"),
                                   HasSubstr(silent_.where().text() + ": no answer in time"))));
}

connection_security plain_security() {
  return {std::make_shared<const job_credentials>(job_credentials::make(false)), nullptr};
}

TEST_F(connect_attempts_test, of_lanes_go_on_to_the_next_address_too) {
  reactor loop("connect-test");
  const connection_security security = plain_security();
  connect_request o;
  o.to = 7;
  std::promise<std::string> reached;
  dial(loop, {silent_.where(), dead(), live()}, security, o, std::chrono::seconds(60),
       clock::now() + std::chrono::seconds(60),
       [&](const std::unique_ptr<stream>& s, const connect_request&, const std::string& why) {
         reached.set_value(s ? peer_text(s->fd()) : why);
       });
  // The other side, which proves itself.
  std::optional<unique_fd> come;
  ASSERT_TRUE(
      test::eventually([&] { return (come = accept_from(listeners_.front().get())).has_value(); }));
  std::array<std::byte, sizeof(preamble) + sizeof(nonce)> heard{};
  std::size_t have = 0;
  ASSERT_TRUE(test::eventually([&] {
    const ssize_t got = ::recv(come->get(), heard.data() + have, heard.size() - have, MSG_DONTWAIT);
    if (got > 0) have += static_cast<std::size_t>(got);
    return have == heard.size();
  }));
  nonce opener{};
  std::memcpy(opener.data(), heard.data() + sizeof(preamble), opener.size());
  const acceptor_reply reply = reply_to(opener, 7, *security.credentials);
  ASSERT_EQ(::send(come->get(), &reply, sizeof reply, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof reply));
  EXPECT_EQ(reached.get_future().get(), live().text());
  loop.stop();
}

TEST_F(connect_attempts_test, of_lanes_say_what_became_of_each_address) {
  reactor loop("connect-test");
  std::promise<std::string> failed;
  const socket_address refuses = dead();
  dial(loop, {silent_.where(), refuses}, plain_security(), {}, std::chrono::milliseconds(600),
       clock::now() + std::chrono::milliseconds(600),
       [&](const std::unique_ptr<stream>& s, const connect_request&, const std::string& why) {
         failed.set_value(s ? "connected" : why);
       });
  EXPECT_THAT(failed.get_future().get(),
              AllOf(HasSubstr(refuses.text() + ": Connection refused"),
                    HasSubstr(silent_.where().text() + ": no answer in time")));
  loop.stop();
}

} // namespace
} // namespace farcall::tcp
