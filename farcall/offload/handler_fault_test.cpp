// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/offload/node_change.hpp>
#include <tests/helper_programs.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

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

/// Recognised by its name, so that the test depends on no line number.
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
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Text that the target writes when a handler faults, and the error of its caller.
struct fault {
  std::string written;
  std::string told;
};

job_options with_report(const std::string& kind, const char* targets = "shm") {
  job_options options = with_targets(targets);
  options.crash_report = kind;
  return options;
}

template <class F>
fault fault_of(const F& handler, const std::string& kind = "names") {
  fault seen;
  ::testing::internal::CaptureStderr();
  {
    const job j(with_report(kind));
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
  return fault_of(handler).told;
}

TEST(handlers_that_fault, are_named_to_the_caller_without_outer_frames) {
  const fault seen = fault_of([] { return stores_at(0x10) + 1; }, "full");
  EXPECT_THAT(seen.told, AllOf(StartsWith("node 1 (process "),
                               HasSubstr(") was killed by signal 11 (SIGSEGV): at address 0x10, "
                                         "in\n    farcall::test::handler_fault_test::stores_at("),
                               EndsWith("means nothing here."), Not(HasSubstr("farcall::detail")),
                               Not(HasSubstr("farcall::am"))));
  EXPECT_THAT(seen.written, AllOf(HasSubstr("node 1 got SIGSEGV at address 0x10\n"),
                                  AnyOf(HasSubstr("node 1 was in\n    farcall::test::"),
                                        HasSubstr("finding them takes too long\n")),
                                  Not(HasSubstr("farcall::am"))));
}

TEST(handlers_that_fault, are_reported_as_the_job_option_says) {
  const auto faults = [] { return stores_at(0x10); };
  const fault names = fault_of(faults, "names");
  EXPECT_THAT(names.told, HasSubstr("farcall::test::handler_fault_test::stores_at("));
  EXPECT_THAT(names.written, EndsWith("node 1 got SIGSEGV at address 0x10\n"));
  const fault off = fault_of(faults, "off");
  EXPECT_THAT(off.told, EndsWith(") was killed by signal 11 (SIGSEGV)"));
  EXPECT_EQ(off.written, "");
  EXPECT_THROW(job{with_report("lines")}, setting_error);
}

/// Replaces the debugger by a program that runs until it is killed.
class debugger_that_hangs {
 public:
  debugger_that_hangs() { ::setenv("PATH", program_.path().c_str(), 1); }
  debugger_that_hangs(const debugger_that_hangs&) = delete;
  debugger_that_hangs& operator=(const debugger_that_hangs&) = delete;
  ~debugger_that_hangs() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_ = std::getenv("PATH");
  helper_programs program_{{"gdb"}, "exec sleep 1000\n"};
};

TEST(handlers_that_fault, have_failed_for_all_while_their_report_is_made) {
  const debugger_that_hangs slow;
  ::testing::internal::CaptureStderr();
  {
    job j(with_report("full"));
    const node target = j.targets()[0];
    const auto process = static_cast<pid_t>(target.description().pid);
    std::promise<std::string> event;
    j.on_node_change([&](const node_event& e) { event.set_value(e.why); });
    auto call = async(target.within(std::chrono::hours(1)), [] { return stores_at(0x10); });
    EXPECT_THROW((void)call.get(), node_failed);
    EXPECT_FALSE(target.alive());
    EXPECT_THROW((void)sync(target, [] {}), node_failed);
    EXPECT_THAT(event.get_future().get(), HasSubstr("(SIGSEGV): at address 0x10"));
    j.remove(target);
    EXPECT_EQ(::kill(process, 0), 0) << "all of this has waited for the report";
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("node 1 got SIGSEGV"), Not(HasSubstr("did not finish"))));
}

TEST(handlers_that_fault, are_started_again_while_their_report_is_made) {
  const debugger_that_hangs slow;
  ::testing::internal::CaptureStderr();
  {
    job j(with_report("full"));
    const node target = j.targets()[0];
    const auto process = static_cast<pid_t>(target.description().pid);
    EXPECT_THROW((void)sync(target, [] { return stores_at(0x10); }), node_failed);
    EXPECT_EQ(sync(j.restart(target), [] { return 7; }), 7);
    EXPECT_EQ(::kill(process, 0), 0) << "the restart has waited for the report";
  }
  (void)::testing::internal::GetCapturedStderr();
}

/// Faults while a second thread of the target writes to the host's memory.
[[gnu::noinline]] int stores_while_another_writes(const remote_span<unsigned>& to) {
  std::thread([to] {
    for (unsigned n = 1;; ++n)
      put(std::span<const unsigned>(&n, 1), to).get();
  }).detach();
  unsigned seen = 0;
  while (seen == 0)
    get(to, std::span(&seen, 1)).get();
  return stores_at(0x10);
}

TEST(handlers_that_fault, leave_the_memory_of_others_alone_from_then_on) {
  const debugger_that_hangs slow;
  ::testing::internal::CaptureStderr();
  {
    job j(with_report("full"));
    const auto written = j.host().allocate<unsigned>(1);
    EXPECT_THROW((void)sync(j.targets()[0], stores_while_another_writes, written.span()),
                 node_failed);
    volatile unsigned& now = *written.span().local().data();
    const unsigned before = now;
    for (int i = 0; i != 100; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(now, before);
    }
  }
  (void)::testing::internal::GetCapturedStderr();
}

TEST(handlers_that_abort, are_named_with_the_exception_that_nobody_caught) {
  EXPECT_THAT(
      text_of_fault([] { std::thread([] { throw std::runtime_error("it is broken"); }).join(); }),
      HasSubstr("was killed by signal 6 (SIGABRT): by an uncaught exception, "
                "std::runtime_error: it is broken"));
  EXPECT_THAT(text_of_fault([] { std::abort(); }), HasSubstr("was killed by signal 6 (SIGABRT)"));
}

#if defined(__x86_64__) // other processors do not fault at a division by zero
int divides(int n) { return 7 / n; }

TEST(handlers_that_fault, are_reported_without_an_address_if_none_faulted) {
  EXPECT_THAT(fault_of([] { return divides(node_count() > 100 ? 1 : 0); }).told,
              AllOf(HasSubstr("(SIGFPE): in\n    "), Not(HasSubstr("at address"))));
}
#endif

TEST(handlers_that_end_without_a_fault, are_reported_with_status_or_signal) {
  EXPECT_THAT(fault_of([] { ::_exit(3); }).told, EndsWith(") exited with status 3"));
  // A signal that was sent: no instruction is at fault.
  EXPECT_THAT(fault_of([] { ::raise(SIGSEGV); }).told,
              EndsWith(") was killed by signal 11 (SIGSEGV)"));
}

TEST(handlers_that_fault, are_told_to_other_targets_that_know_the_node) {
  ::testing::internal::CaptureStderr();
  {
    const job j(with_report("names", "shm:2"));
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
  EXPECT_THAT(seen.told, says_it);
  EXPECT_THAT(seen.written, HasSubstr("for want of stack"));
}

TEST(handlers_that_fault, say_that_the_stack_of_continuations_is_full) {
  EXPECT_THAT(text_of_fault([] {
                return async(host(), [] {}).then([](future<void>) { return never_ends(0); }).get();
              }),
              HasSubstr("for want of stack"));
}

} // namespace
} // namespace farcall::test::handler_fault_test

#endif
