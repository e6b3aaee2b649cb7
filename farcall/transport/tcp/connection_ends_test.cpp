// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/connection_ends.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::tcp::connection_ends_test {
namespace {

constexpr node_id peer = 3;

class revocable_connection final : public revocable {
 public:
  void revoke() noexcept override { ++revoked; }
  int revoked = 0;
};

class connection_ends_test : public ::testing::Test {
 protected:
  ~connection_ends_test() override {
    ends_->stop();
    on_loop([] {});
  }

  void on_loop(const std::function<void()>& what) {
    std::atomic<bool> is_done{false};
    loop_.post([&] {
      what();
      is_done = true;
    });
    EXPECT_TRUE(test::eventually([&] { return is_done.load(); }));
  }
  void take(connection_word word, std::uint64_t serial,
            connection_kind kind = connection_kind::lane) {
    dial_request said;
    said.serial = serial;
    said.kind = kind;
    said.word = word;
    on_loop([&] { ends_->take(peer, said); });
  }
  bool add(std::uint64_t serial, const std::shared_ptr<revocable>& connection,
           connection_kind kind = connection_kind::lane) {
    bool is_taken = false;
    on_loop([&] { is_taken = ends_->add(peer, kind, serial, connection); });
    return is_taken;
  }
  std::size_t count_said(connection_word word, std::uint64_t serial) {
    const std::lock_guard guard(mutex_);
    std::size_t count = 0;
    for (const auto& [to, said] : said_)
      count += to == peer && said.word == word && said.serial == serial ? 1 : 0;
    return count;
  }

  std::mutex mutex_;
  std::vector<std::pair<node_id, dial_request>> said_;
  event_loop loop_{"ends-test"};
  std::shared_ptr<connection_ends> ends_ =
      std::make_shared<connection_ends>(loop_, [this](node_id to, const dial_request& said) {
        const std::lock_guard guard(mutex_);
        said_.emplace_back(to, said);
      });
};

TEST_F(connection_ends_test, a_connection_is_revoked_before_the_reply) {
  const auto one = std::make_shared<revocable_connection>();
  const auto other = std::make_shared<revocable_connection>();
  const auto copies = std::make_shared<revocable_connection>();
  EXPECT_TRUE(add(5, one));
  EXPECT_TRUE(add(7, other));
  EXPECT_TRUE(add(5, copies, connection_kind::bulk));
  EXPECT_EQ(count_said(connection_word::refused, 5), 0U);
  take(connection_word::given_up, 5);
  EXPECT_EQ(one->revoked, 1);
  EXPECT_EQ(count_said(connection_word::refused, 5), 1U);
  EXPECT_EQ(other->revoked, 0);
  EXPECT_EQ(copies->revoked, 0);
  // The reply may have been lost.
  take(connection_word::given_up, 5);
  EXPECT_EQ(count_said(connection_word::refused, 5), 2U);
}

TEST_F(connection_ends_test, a_connection_after_its_end_is_refused) {
  take(connection_word::given_up, 5);
  EXPECT_FALSE(add(5, std::make_shared<revocable_connection>()));
  EXPECT_TRUE(add(4, std::make_shared<revocable_connection>()));
  EXPECT_TRUE(add(5, std::make_shared<revocable_connection>(), connection_kind::bulk));
}

TEST_F(connection_ends_test, the_oldest_serials_are_refused_beyond_the_limit) {
  constexpr auto most = static_cast<std::uint64_t>(given_up_serials::most);
  for (std::uint64_t n = 1; n <= most + 1; ++n)
    take(connection_word::given_up, 10 * n);
  EXPECT_FALSE(add(3, std::make_shared<revocable_connection>()));
  EXPECT_FALSE(add(10, std::make_shared<revocable_connection>()));
  EXPECT_TRUE(add(13, std::make_shared<revocable_connection>()));
  EXPECT_FALSE(add(20, std::make_shared<revocable_connection>()));
}

TEST_F(connection_ends_test, a_peer_is_told_again_until_it_replies) {
  std::atomic<int> done{0};
  ends_->give_up(peer, connection_kind::bulk, 9, [&] { ++done; });
  EXPECT_TRUE(test::eventually([&] { return count_said(connection_word::given_up, 9) >= 3; }));
  EXPECT_EQ(done, 0);
  take(connection_word::refused, 8, connection_kind::bulk);
  take(connection_word::refused, 9, connection_kind::lane);
  EXPECT_EQ(done, 0);
  take(connection_word::refused, 9, connection_kind::bulk);
  EXPECT_EQ(done, 1);
  take(connection_word::refused, 9, connection_kind::bulk);
  EXPECT_EQ(done, 1);
}

TEST_F(connection_ends_test, a_peer_that_is_gone_is_told_nothing) {
  std::atomic<int> done{0};
  ends_->give_up(peer, connection_kind::lane, 1, [&] { ++done; });
  EXPECT_TRUE(test::eventually([&] { return count_said(connection_word::given_up, 1) == 1; }));
  ends_->forget(peer);
  ends_->give_up(peer, connection_kind::lane, 2, [&] { ++done; });
  on_loop([] {});
  EXPECT_EQ(count_said(connection_word::given_up, 2), 0U);
  take(connection_word::refused, 1);
  EXPECT_EQ(done, 0);
}

} // namespace
} // namespace farcall::tcp::connection_ends_test
