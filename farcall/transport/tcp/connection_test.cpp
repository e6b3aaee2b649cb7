// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>
#include <farcall/transport/tcp/unix_socket_test_support.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

/// Tests both ends of making a connection between nodes.
namespace farcall::tcp::connection_test {
namespace {

using namespace test_support;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

struct outcome {
  std::unique_ptr<stream> connection;
  connect_request request;
  std::string why;
};

/// Outcome that a callback delivers once.
class told_outcome {
 public:
  [[nodiscard]] dialled teller() const {
    return [to = told_](std::unique_ptr<stream> s, const connect_request& o, const std::string& w) {
      to->set_value({std::move(s), o, w});
    };
  }
  [[nodiscard]] outcome get() { return told_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<outcome>> told_ = std::make_shared<std::promise<outcome>>();
};

constexpr node_id here = 2;

class connections : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !tls_is_built_in()) GTEST_SKIP() << "built without TLS";
    auto job = std::make_shared<job_credentials>(job_credentials::make(GetParam()));
    security_ = {job, job->identity()};
    request_.kind = connection_kind::lane;
    request_.from = 1;
    request_.to = here;
  }

  [[nodiscard]] told_outcome dial_it(std::vector<socket_address> where,
                                     milliseconds longest = milliseconds(30'000)) {
    told_outcome told;
    dial(loop_, std::move(where), security_, request_, longest, clock::now() + longest,
         told.teller());
    return told;
  }

  /// Accepts the next connection and reads its preamble.
  [[nodiscard]] static unique_fd taken_from(const unique_fd& listener) {
    std::optional<unique_fd> come;
    EXPECT_TRUE(test::eventually([&] { return (come = accept_from(listener.get())).has_value(); }));
    if (!come) return {};
    preamble first;
    EXPECT_TRUE(test::eventually([&] {
      return ::recv(come->get(), &first, sizeof first, MSG_DONTWAIT) ==
             static_cast<ssize_t>(sizeof first);
    }));
    EXPECT_EQ(flaw_of(first), "");
    return std::move(*come);
  }

  [[nodiscard]] told_outcome receive_from(const unique_fd& listener, node_id self) {
    told_outcome told;
    (void)receive_connect_request(loop_, taken_from(listener), security_, self, soon(),
                                  told.teller());
    return told;
  }

  [[nodiscard]] static socket_address where(const unique_fd& listener) {
    return resolve(local_address(listener.get())).front();
  }
  [[nodiscard]] static unique_fd listener() {
    return std::move(listen_on({"127.0.0.1", 0}).front());
  }
  /// Returns an address without a listener.
  [[nodiscard]] static socket_address dead() { return where(listener()); }

  /// Declared before the loop, which calls functions that use these members.
  connection_security security_;
  connect_request request_;
  unique_fd first_ = listener();
  unique_fd second_ = listener();
  event_loop loop_{"farcall-test"};
};

TEST_P(connections, are_made_where_both_ends_prove_themselves) {
  told_outcome dialling = dial_it({where(first_)});
  told_outcome receiving = receive_from(first_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  EXPECT_TRUE(made.connection->is_established());
  const bytes request(reinterpret_cast<const std::byte*>(&made.request),
                      reinterpret_cast<const std::byte*>(&made.request + 1));
  EXPECT_EQ(write_all(*made.connection, request), io_status::done);
  const outcome come = receiving.get();
  ASSERT_TRUE(come.connection) << come.why;
  EXPECT_EQ(come.request.from, request_.from);
}

TEST_P(connections, to_another_node_are_noticed_by_the_dialler) {
  told_outcome dialling = dial_it({where(first_)});
  told_outcome receiving = receive_from(first_, here + 1);
  const outcome made = dialling.get();
  EXPECT_FALSE(made.connection);
  EXPECT_THAT(made.why, AllOf(HasSubstr(where(first_).text()),
                              HasSubstr("may have redirected the connection")));
  EXPECT_FALSE(receiving.get().connection);
}

TEST_P(connections, skip_addresses_of_other_nodes) {
  told_outcome dialling = dial_it({where(first_), where(second_)});
  told_outcome elsewhere = receive_from(first_, here + 1);
  told_outcome there = receive_from(second_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  EXPECT_EQ(peer_text(made.connection->fd()), where(second_).text());
  EXPECT_FALSE(elsewhere.get().connection);
}

TEST_P(connections, skip_addresses_that_close_them) {
  told_outcome dialling = dial_it({where(first_), where(second_)});
  taken_from(first_).reset();
  told_outcome there = receive_from(second_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  EXPECT_EQ(peer_text(made.connection->fd()), where(second_).text());
}

TEST_P(connections, skip_silent_and_refusing_addresses) {
  const silent_address silent;
  told_outcome dialling = dial_it({silent.where(), dead(), where(second_)});
  told_outcome there = receive_from(second_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  EXPECT_EQ(peer_text(made.connection->fd()), where(second_).text());
}

TEST_P(connections, are_made_although_one_address_accepts_silently) {
  told_outcome dialling = dial_it({where(first_), where(second_)});
  const unique_fd silent = taken_from(first_);
  told_outcome there = receive_from(second_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  EXPECT_EQ(peer_text(made.connection->fd()), where(second_).text());
  // The silent connection is closed.
  pollfd end{silent.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&end, 1, 10'000), 1);
}

TEST_P(connections, are_dialled_again_if_a_flood_displaces_them) {
  told_outcome dialling = dial_it({where(first_)});
  taken_from(first_).reset();
  taken_from(first_).reset();
  told_outcome receiving = receive_from(first_, here);
  const outcome made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
}

TEST_P(connections, are_not_dialled_again_for_ever) {
  told_outcome dialling = dial_it({where(first_)});
  std::atomic<bool> is_over{false};
  std::jthread ends_all([&] {
    while (!is_over) {
      (void)accept_from(first_.get());
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const outcome made = dialling.get();
  is_over = true;
  EXPECT_FALSE(made.connection);
  EXPECT_THAT(made.why, HasSubstr(where(first_).text()));
}

TEST_P(connections, report_the_failure_of_each_address) {
  const silent_address silent;
  const socket_address refuses = dead();
  // Long enough to try each address even on a busy machine.
  told_outcome dialling = dial_it({silent.where(), refuses, where(first_)}, milliseconds(3000));
  const unique_fd taken = taken_from(first_);
  EXPECT_THAT(dialling.get().why,
              AllOf(HasSubstr(refuses.text() + ": Connection refused"),
                    HasSubstr(silent.where().text() + ": no reply in time"),
                    HasSubstr(where(first_).text() + ": it takes connections and does not reply")));
}

TEST_P(connections, report_why_a_server_refuses_them) {
  told_outcome dialling = dial_it({where(first_)});
  const unique_fd taken = taken_from(first_);
  admission_message word;
  word.word = admission::is_draining;
  ASSERT_EQ(::send(taken.get(), &word, sizeof word, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof word));
  EXPECT_THAT(dialling.get().why, HasSubstr("it is draining"));
}

TEST_P(connections, name_the_release_of_an_end_of_another_version) {
  told_outcome dialling = dial_it({where(first_)});
  const unique_fd taken = taken_from(first_);
  admission_message word;
  word.version = connection_version + 1;
  word.release = 0x000200;
  word.word = admission::other_version;
  ASSERT_EQ(::send(taken.get(), &word, sizeof word, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof word));
  EXPECT_THAT(dialling.get().why, AllOf(HasSubstr("farcall " + release_text(this_release)),
                                        HasSubstr("farcall 0.2.0")));
}

TEST_P(connections, without_a_key_stay_within_one_user) {
  const listener_of_nobody other;
  if (!other.is_there()) GTEST_SKIP() << "only root can be another user";
  told_outcome dialling = dial_it({resolve({other.path()}).front()}, milliseconds(500));
  EXPECT_THAT(dialling.get().why, HasSubstr(GetParam() ? "does not reply" : "another user's"));
}

INSTANTIATE_TEST_SUITE_P(with, connections, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::tcp::connection_test
