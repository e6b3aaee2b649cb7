#include <farcall/base/fault_report.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

#include <unistd.h>

// Sanitizers report faults themselves.
#if defined(__SANITIZE_ADDRESS__)
#define FARCALL_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FARCALL_TEST_SANITIZED
#endif
#endif

#ifndef FARCALL_TEST_SANITIZED

namespace farcall::test {
namespace {

using ::testing::KilledBySignal;

/// Not known to the compiler.
volatile std::uintptr_t somewhere = 0x10;

[[gnu::noinline]] int stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
  return 1;
}
[[gnu::noinline]] int calls_one_that_stores() { return stores_at(somewhere) + 1; }
[[gnu::noinline]] int calls_no_function() {
  return reinterpret_cast<int (*)()>(somewhere + 0)() + 1;
}

int with_report(int (*faults)()) {
  report_faults(3);
  return faults();
}

TEST(fault_report, names_the_functions_with_their_lines) {
  EXPECT_EXIT(with_report(calls_one_that_stores), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x10.*stores_at\\(unsigned long\\) at .*"
              "fault_report_test.cpp:[0-9]+.*calls_one_that_stores.*fault_report_test.cpp:[0-9]+");
}

TEST(fault_report, names_who_has_called_what_is_no_function) {
  EXPECT_EXIT(with_report(calls_no_function), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x10.*calls_no_function");
}

TEST(fault_report, leaves_signals_that_the_program_handles) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { ::_exit(7); });
        with_report(calls_one_that_stores);
      },
      ::testing::ExitedWithCode(7), "^$");
}

TEST(fault_report, leaves_signals_that_somebody_sends) {
  EXPECT_EXIT(with_report([] { return ::raise(SIGSEGV); }), KilledBySignal(SIGSEGV), "^$");
}

} // namespace
} // namespace farcall::test

#endif
