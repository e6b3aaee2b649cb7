// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

/// Tests copies to and from a target that is stopped while its server and the host work.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds soon{50};
/// More bytes than a connection's buffers hold.
constexpr std::size_t bytes = std::size_t{64} << 20;
/// Too few bytes for a bulk copy.
constexpr std::size_t few = 4000;

class network_deadline_test : public testing::TestWithParam<bool> {
 protected:
  network_deadline_test() {
    const std::string key = folder_.make_key(GetParam());
    server_.emplace(local_server(key));
    job_.emplace(network_job(url_of(*server_), key));
    target_ = job_->targets()[0];
  }

  scratch_folder folder_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

TEST_P(network_deadline_test, copies_to_a_stopped_target_end_at_deadlines) {
  auto there = target_.allocate<char>(bytes);
  std::vector<char> here(bytes, 'a');
  put_sync(here, there); // makes the connection, which stays
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
  // Late replies must not reach a later copy.
  std::fill(here.begin(), here.end(), 'b');
  stopped.resume();
  sync(target_, [] {}); // ordered after the small copy, which was a call
  put_sync(here, there);
  std::vector<char> back(bytes);
  get_sync(there.within(wait_limit), back);
  EXPECT_TRUE(back == here);
}

TEST_P(network_deadline_test, waits_for_copies_end_at_deadlines) {
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

TEST_P(network_deadline_test, memory_of_a_late_copy_is_not_freed) {
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

/// Lets this process open no more descriptors during its lifetime.
class full_of_descriptors {
 public:
  full_of_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    const rlimit now{static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  full_of_descriptors(const full_of_descriptors&) = delete;
  full_of_descriptors& operator=(const full_of_descriptors&) = delete;
  ~full_of_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::uint64_t memory_of_no_heap() {
  static std::vector<char> memory(async_copy_from);
  return reinterpret_cast<std::uintptr_t>(memory.data());
}

TEST_P(network_deadline_test, memory_of_late_call_copies_is_not_freed) {
  std::vector<char> here(async_copy_from, 'a');
  const std::uint64_t address = sync(target_, memory_of_no_heap);
  // Do not wait in get(): the copy thread then makes the copy, by calls on its own lane.
  future<void> first = put(here, remote_span<char>(target_.id(), address, here.size()));
  EXPECT_TRUE(eventually([&] { return first.test(); }));
  first.get();
  auto there = target_.allocate<char>(here.size());
  stopped_target stopped(target_);
  {
    const full_of_descriptors no_connection;
    future<void> late = put(here, there.within(soon));
    EXPECT_TRUE(eventually([&] { return late.test(); }));
    EXPECT_THROW(late.get(), timeout);
  }
  EXPECT_TRUE(
      ends([&] { EXPECT_THROW(there.within(soon).reset(), timeout); }, [&] { stopped.resume(); }));
  EXPECT_FALSE(there.empty());
  stopped.resume();
  put_sync(here, there.within(wait_limit));
  there.within(wait_limit).reset();
  EXPECT_TRUE(there.empty());
}

INSTANTIATE_TEST_SUITE_P(network, network_deadline_test, testing::Bool(),
                         [](const auto& p) { return p.param ? "encrypted" : "plain"; });

} // namespace
} // namespace farcall::test
