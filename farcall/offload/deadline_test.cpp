// Deadlines of what is no call: memory, copies, coroutines, destructors. A target that is stopped
// stands for all that do not answer.

#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/job_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// For waits that are to end by it.
constexpr milliseconds soon{30};
/// In this time all ends that ends by itself; a wait that does not takes longer.
constexpr std::chrono::seconds late{10};

std::uint64_t bytes_in_use() { return detail::current_job().engine->heap().bytes_in_use(); }

// ---- memory -------------------------------------------------------------------------------------

class memory_with_deadlines : public job_test {};

TEST_F(memory_with_deadlines, is_allocated_in_time) {
  const buffer<int> b = target_.within(wait_limit).allocate<int>(100);
  EXPECT_EQ(b.size(), 100U);
  EXPECT_EQ(b.node(), target_);
  EXPECT_EQ(job_.host().within(wait_limit).allocate<int>(7).size(), 7U);
}

TEST_F(memory_with_deadlines, that_does_not_come_in_time_is_freed_when_it_does) {
  const std::uint64_t before = sync(target_, bytes_in_use);
  {
    const stopped_target stopped(target_);
    const auto e = thrown_by<timeout>(
        [&] { (void)target_.within(soon).allocate<char>(std::size_t{1} << 20); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->node(), target_.id());
  }
  // The first of these calls comes behind the allocation.
  EXPECT_TRUE(eventually([&] { return sync(target_, bytes_in_use) == before; }));
}

TEST_F(memory_with_deadlines, that_comes_after_the_job_is_nobodys) {
  const stopped_target stopped(target_);
  EXPECT_THROW((void)target_.within(soon).allocate<char>(100), timeout);
  // The job ends with the target stopped.
}

TEST(ends_of_buffers, wait_for_a_full_lane_for_a_while) {
  job_options options = with_targets("shm");
  options.release_timeout = soon;
  const job j(options);
  const node target = j.targets()[0];
  auto b = target.allocate<char>(std::size_t{1} << 20);
  const std::uint64_t before = sync(target, bytes_in_use);
  stopped_target stopped(target);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(ends(
      [&] {
        // No longer than the message that frees, so that it finds no space either.
        EXPECT_THROW(for (;;) { post(target.within(soon), [] {}); }, timeout);
        b.reset();
      },
      [&] { stopped.resume(); }));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("release_timeout"));
  EXPECT_TRUE(b.empty());
  stopped.resume();
  EXPECT_EQ(sync(target, bytes_in_use), before) << "it stays taken, as was logged";
}

} // namespace
} // namespace farcall::test
