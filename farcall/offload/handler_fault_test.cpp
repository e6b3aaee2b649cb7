#include <farcall/offload/call.hpp>
#include <farcall/offload/job_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <unistd.h>

// Sanitizers report faults themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FARCALL_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FARCALL_TEST_SANITIZED
#endif
#endif

#ifndef FARCALL_TEST_SANITIZED

namespace farcall::test::handler_fault_test {

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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// What the target writes while a handler faults, and what its caller is told.
struct fault {
  std::string written;
  std::string told;
};

template <class F>
fault fault_of(const F& handler, const char* targets = "shm") {
  fault seen;
  ::testing::internal::CaptureStderr();
  {
    const job j(with_targets(targets));
    try {
      (void)sync(j.targets()[0], handler);
      ADD_FAILURE() << "the handler has returned";
    } catch (const node_failed& e) {
      seen.told = e.what();
    }
  }
  seen.written = ::testing::internal::GetCapturedStderr();
  return seen;
}

template <class F>
std::string text_of_fault(const F& handler) {
  return fault_of(handler).written;
}

TEST(handlers_that_fault, are_named_to_the_caller_without_what_has_called_them) {
  const fault seen = fault_of([] { return stores_at(0x10) + 1; });
  EXPECT_THAT(seen.told, AllOf(StartsWith("node 1 (process "),
                               HasSubstr(") was killed by signal 11 (SIGSEGV): at address 0x10, "
                                         "in\n    "),
                               HasSubstr("farcall::test::handler_fault_test::stores_at"),
                               HasSubstr("means nothing here."), Not(HasSubstr("farcall::detail")),
                               Not(EndsWith("\n"))));
  // Line by line what is written.
  EXPECT_THAT(seen.written, AllOf(HasSubstr("node 1 got SIGSEGV at address 0x10"),
                                  Not(HasSubstr("farcall::am"))));
  EXPECT_THAT(seen.written, HasSubstr(seen.told.substr(seen.told.find("at address"))));
}

/// What looks up the functions is not found in it, which takes no time.
class without_path {
 public:
  without_path() : before_(std::getenv("PATH")) { ::setenv("PATH", "/nowhere", 1); }
  without_path(const without_path&) = delete;
  without_path& operator=(const without_path&) = delete;
  ~without_path() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

#if defined(__x86_64__) // others divide by zero
int divides(int n) { return 7 / n; }

TEST(handlers_that_fault, are_told_without_an_address_where_none_is_at_fault) {
  const without_path quick;
  EXPECT_THAT(fault_of([] { return divides(node_count() > 100 ? 1 : 0); }).told,
              AllOf(HasSubstr("(SIGFPE): in\n    "), Not(HasSubstr("at address"))));
}
#endif

TEST(handlers_that_end_without_a_fault, are_told_as_before) {
  EXPECT_THAT(fault_of([] { ::_exit(3); }).told, EndsWith(") exited with status 3"));
  // Sent, so that no instruction is at fault.
  EXPECT_THAT(fault_of([] { ::raise(SIGSEGV); }).told,
              EndsWith(") was killed by signal 11 (SIGSEGV)"));
}

TEST(handlers_that_fault, are_told_to_other_targets_that_know_the_node) {
  const without_path quick;
  ::testing::internal::CaptureStderr();
  {
    const job j(with_targets("shm:2"));
    const std::string told = sync(j.targets()[1], [] {
      try {
        (void)sync(node_at(1), [] { return stores_at(0x10); });
      } catch (const node_failed& e) {
        return std::string(e.what());
      }
      return std::string("it has returned");
    });
    EXPECT_THAT(told, HasSubstr("(SIGSEGV): at address 0x10, in\n"));
  }
  (void)::testing::internal::GetCapturedStderr();
}

TEST(handlers_that_fault, are_named_in_coroutines_and_lanes_too) {
  EXPECT_THAT(
      text_of_fault([] {
        return async(host(), [] {}).then([](future<void>) { return stores_at(0x20); }).get();
      }),
      AllOf(HasSubstr("at address 0x20"),
            HasSubstr("farcall::test::handler_fault_test::stores_at")));
}

TEST(handlers_that_fault, say_that_the_stack_is_full) {
  const fault seen = fault_of([] { return never_ends(0); });
  const auto says_it = AllOf(HasSubstr("for want of stack"),
                             HasSubstr("farcall::test::handler_fault_test::never_ends"));
  EXPECT_THAT(seen.written, says_it);
  EXPECT_THAT(seen.told, says_it);
}

TEST(handlers_that_fault, say_it_of_continuations_too) {
  EXPECT_THAT(text_of_fault([] {
                return async(host(), [] {}).then([](future<void>) { return never_ends(0); }).get();
              }),
              HasSubstr("for want of stack"));
}

} // namespace
} // namespace farcall::test::handler_fault_test

#endif
