#include "tests/network/support.hpp"

#include <farcall/offload/job_test_support.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

/// Copies to and from a target that is stopped while its server, and the host, are well.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds soon{50};
/// More than the buffers of a connection hold.
constexpr std::size_t bytes = std::size_t{64} << 20;
/// Too small for a connection of its own.
constexpr std::size_t few = 4000;

class network_deadline_test : public testing::TestWithParam<bool> {
 protected:
  network_deadline_test() {
    std::string key;
    if (GetParam()) {
      key = folder_.file("key");
      tcp::write_key_file(key);
    }
    server_.emplace(local_server(key));
    job_.emplace(network_job(url_of(*server_), key));
    target_ = job_->targets()[0];
  }

  scratch_folder folder_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

TEST_P(network_deadline_test, copies_to_a_stopped_target_end_at_theirs) {
  auto there = target_.allocate<char>(bytes);
  std::vector<char> here(bytes, 'a');
  put_sync(here, there); // by a connection, which is there from now on
  stopped_target stopped(target_);
  EXPECT_TRUE(ends(
      [&] {
        EXPECT_THROW(put_sync(here, there.within(soon)), timeout);
        EXPECT_THROW(get_sync(there.within(soon), here), timeout);
        EXPECT_THROW(put(here, there.within(soon)).get(), timeout);
        EXPECT_THROW(get(there.within(soon), here).get(), timeout);
        const std::span<char> some(here.data(), few);
        EXPECT_THROW(put_sync(some, there.within(soon)), timeout);
        EXPECT_THROW(get_sync(there.within(soon), some), timeout);
      },
      [&] { stopped.resume(); }));
  // What comes late finds nobody.
  std::fill(here.begin(), here.end(), 'b');
  stopped.resume();
  sync(target_, [] {}); // behind the small one, which went as a call
  put_sync(here, there);
  std::vector<char> back(bytes);
  get_sync(there.within(wait_limit), back);
  EXPECT_TRUE(back == here);
}

TEST_P(network_deadline_test, waits_for_copies_end_at_theirs) {
  const auto there = target_.allocate<char>(bytes);
  std::vector<char> here(bytes, 'a');
  stopped_target stopped(target_);
  future<void> f = put(here, there);
  EXPECT_TRUE(ends(
      [&] {
        EXPECT_FALSE(f.test());
        EXPECT_FALSE(f.wait_for(soon));
      },
      [&] { stopped.resume(); }));
  stopped.resume();
  f.get();
}

TEST_P(network_deadline_test, memory_that_a_late_copy_may_change_is_not_freed) {
  auto there = target_.allocate<char>(bytes);
  std::vector<char> here(bytes, 'a');
  put_sync(here, there);
  stopped_target stopped(target_);
  EXPECT_TRUE(ends(
      [&] {
        EXPECT_THROW(put_sync(here, there.within(soon)), timeout);
        EXPECT_THROW(there.within(soon).reset(), timeout);
      },
      [&] { stopped.resume(); }));
  EXPECT_FALSE(there.empty());
  stopped.resume();
  there.within(wait_limit).reset();
  EXPECT_TRUE(there.empty());
}

INSTANTIATE_TEST_SUITE_P(network, network_deadline_test, testing::Bool(),
                         [](const auto& p) { return p.param ? "encrypted" : "plain"; });

} // namespace
} // namespace farcall::test
