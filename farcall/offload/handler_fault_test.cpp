#include <farcall/offload/call.hpp>
#include <farcall/offload/job_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

// Sanitizers report faults themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FARCALL_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FARCALL_TEST_SANITIZED
#endif
#endif

#ifndef FARCALL_TEST_SANITIZED

namespace farcall::test {

/// Known by name, so that no line is needed to tell it.
[[gnu::noinline]] int stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
  return 1;
}
[[gnu::noinline]] int never_ends(int depth) {
  const volatile int kept = depth;
  return kept < 0 ? 0 : never_ends(kept + 1) + kept;
}

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// What host and target write while a handler faults.
template <class F>
std::string text_of_fault(const F& handler) {
  ::testing::internal::CaptureStderr();
  {
    const job j(with_targets("shm"));
    EXPECT_THROW((void)sync(j.targets()[0], handler), node_failed);
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(handlers_that_fault, are_named_without_what_has_called_them) {
  EXPECT_THAT(text_of_fault([] { return stores_at(0x10) + 1; }),
              AllOf(HasSubstr("node 1 got SIGSEGV at address 0x10"),
                    HasSubstr("farcall::test::stores_at"), Not(HasSubstr("farcall::detail")),
                    Not(HasSubstr("farcall::am"))));
}

TEST(handlers_that_fault, are_named_in_coroutines_and_lanes_too) {
  EXPECT_THAT(
      text_of_fault([] {
        return async(host(), [] {}).then([](future<void>) { return stores_at(0x20); }).get();
      }),
      AllOf(HasSubstr("at address 0x20"), HasSubstr("farcall::test::stores_at")));
}

TEST(handlers_that_fault, say_that_the_stack_is_full) {
  EXPECT_THAT(text_of_fault([] { return never_ends(0); }),
              AllOf(HasSubstr("for want of stack"), HasSubstr("farcall::test::never_ends")));
}

TEST(handlers_that_fault, say_it_of_continuations_too) {
  EXPECT_THAT(text_of_fault([] {
                return async(host(), [] {}).then([](future<void>) { return never_ends(0); }).get();
              }),
              HasSubstr("for want of stack"));
}

} // namespace
} // namespace farcall::test

#endif
