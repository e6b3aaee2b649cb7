// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>
#include <farcall/transport/tcp/unproved_arrivals.hpp>
#include <tests/support.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace farcall::tcp::unproved_arrivals_test {
namespace {

/// Sets this process's limit of descriptors during its lifetime.
class descriptor_limit_of_test {
 public:
  explicit descriptor_limit_of_test(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{limit, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  descriptor_limit_of_test(const descriptor_limit_of_test&) = delete;
  descriptor_limit_of_test& operator=(const descriptor_limit_of_test&) = delete;
  ~descriptor_limit_of_test() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

class unproved_arrivals_test : public testing::Test {
 protected:
  void come(const std::string& from) {
    all_.add(from, [this](std::function<void()> decided) {
      const std::size_t number = decided_.size();
      decided_.push_back(std::move(decided));
      return [this, number](const std::string& why) {
        refused_.push_back(number);
        EXPECT_FALSE(why.empty());
      };
    });
  }

  descriptor_limit_of_test limit_{256};
  static constexpr std::size_t an_eighth = 32;
  unproved_arrivals all_;
  std::vector<std::function<void()>> decided_;
  std::vector<std::size_t> refused_;
};

TEST_F(unproved_arrivals_test, have_an_eighth_of_the_descriptors) {
  for (std::size_t i = 0; i < an_eighth; ++i)
    come("192.0.2.1:5000");
  EXPECT_TRUE(refused_.empty());
  come("192.0.2.1:5000");
  EXPECT_EQ(refused_.size(), 1U);
}

/// The loop does not run meanwhile.
TEST(unproved_arrivals_of_sockets, closes_a_displaced_connection_at_once) {
  const descriptor_limit_of_test limit(256);
  constexpr std::size_t space = 32;
  constexpr std::size_t too_many = 24;
  event_loop loop;
  const connection_security security{
      std::make_shared<const job_credentials>(job_credentials::make(false)), nullptr};
  unproved_arrivals all;
  std::vector<unique_fd> peers;
  for (std::size_t i = 0; i < space + too_many; ++i) {
    auto [peer, ours] = test_support::tcp_pair();
    peers.push_back(std::move(peer));
    all.add("192.0.2.1:5000", [&, socket = &ours](std::function<void()> decided) {
      return receive_connect_request(loop, std::move(*socket), security, 1, test_support::soon(),
                                     [decided](std::unique_ptr<stream> /*connection*/,
                                               const connect_request& /*request*/,
                                               const std::string& /*why*/) { decided(); });
    });
  }
  EXPECT_EQ(std::ranges::count_if(peers,
                                  [](const unique_fd& p) {
                                    char any = 0;
                                    return ::recv(p.get(), &any, 1, MSG_DONTWAIT) == 0;
                                  }),
            too_many);
}

TEST(unproved_limit, follows_the_limit_of_descriptors) {
  const auto limit_at = [](rlim_t limit) {
    const descriptor_limit_of_test now(limit);
    return unproved_limit(128);
  };
  EXPECT_EQ(limit_at(1024), 128U);
  EXPECT_EQ(limit_at(256), 32U);
  EXPECT_EQ(limit_at(64), 8U);
  EXPECT_EQ(limit_at(32), 8U);
}

TEST(acceptor_test, holds_fewer_connections_with_few_descriptors) {
  event_loop loop;
  std::vector<unique_fd> listeners = listen_on({"127.0.0.1", 0});
  std::shared_ptr<acceptor> few;
  {
    const descriptor_limit_of_test limit(64);
    few = std::make_shared<acceptor>(loop, std::move(listeners), std::chrono::hours(1));
  }
  few->start([](unique_fd, const preamble&, const std::string&) {});
  std::vector<unique_fd> silent;
  for (std::uint64_t n = 1; n <= 20; ++n) {
    silent.push_back(connect_to(few->addresses().front(), clock::now() + test::wait_limit));
    EXPECT_TRUE(test::eventually([&] {
      loop.turn(clock::now());
      return few->accepted() == n;
    }));
  }
  EXPECT_EQ(few->unproved(), 8U);
}

TEST_F(unproved_arrivals_test, that_have_proved_themselves_free_their_places) {
  for (std::size_t i = 0; i < 10 * an_eighth; ++i) {
    come("192.0.2.1:5000");
    decided_.back()();
  }
  EXPECT_TRUE(refused_.empty());
}

TEST_F(unproved_arrivals_test, from_other_sources_survive_a_flood) {
  come("192.0.2.2:5000");
  for (std::size_t i = 0; i < 10 * an_eighth; ++i)
    come("192.0.2.1:5000");
  EXPECT_EQ(refused_.size(), 1 + 10 * an_eighth - an_eighth);
  for (const std::size_t number : refused_)
    EXPECT_NE(number, 0U);
}

} // namespace
} // namespace farcall::tcp::unproved_arrivals_test
