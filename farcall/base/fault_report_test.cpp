#include <farcall/base/fault_report.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

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

namespace farcall::test::fault_report_test {
namespace {

using ::testing::KilledBySignal;

/// Not known to the compiler.
volatile std::uintptr_t somewhere = 0x10;

[[gnu::noinline]] int stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
  return 1;
}
[[gnu::noinline]] int calls_one_that_stores() { return stores_at(somewhere) + 1; }
[[gnu::noinline]] int calls_null() {
  const std::uintptr_t zero = somewhere - 0x10;
  return reinterpret_cast<int (*)()>(zero)() + 1;
}
[[gnu::noinline]] int overruns_an_array() {
  volatile char small[16];
  volatile char* to = small;
  for (;;)
    *to++ = 1;
}
int overruns_an_array_of_a_handler() {
  const signal_stack own;
  return overruns_an_array() + 1;
}
int reads_an_address_of_no_process() {
  return *reinterpret_cast<volatile int*>(somewhere + 0x4141414141414131);
}
[[gnu::noinline]] int calls_no_function() {
  return reinterpret_cast<int (*)()>(somewhere + 0)() + 1;
}

[[gnu::noinline]] int never_ends(int depth) {
  const volatile int kept = depth;
  return kept < 0 ? 0 : never_ends(kept + 1) + kept;
}
int never_ends_in_a_thread() {
  std::thread([] {
    const signal_stack own;
    never_ends(0);
  }).join();
  return 0;
}

int with_report(int (*faults)()) {
  report_faults(3);
  return faults();
}

TEST(fault_report, names_the_functions_with_their_lines) {
  EXPECT_EXIT(
      with_report(calls_one_that_stores), KilledBySignal(SIGSEGV),
      "node 3 got SIGSEGV at address 0x10.*stores_at ?\\((unsigned long|address=16)\\) at .*"
      "fault_report_test.cpp:[0-9]+.*calls_one_that_stores.*fault_report_test.cpp:[0-9]+");
}

TEST(fault_report, names_who_has_called_what_is_no_function) {
  EXPECT_EXIT(with_report(calls_no_function), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x10.*calls_no_function");
}

TEST(fault_report, names_who_has_called_null) {
  EXPECT_EXIT(with_report(calls_null), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x0.*calls_null");
}

TEST(fault_report, tells_addresses_as_they_are) {
  EXPECT_EXIT(with_report(reads_an_address_of_no_process), KilledBySignal(SIGSEGV),
              "at an address (that no process can have|0x4141414141414141), in");
  EXPECT_EXIT(with_report(overruns_an_array_of_a_handler), KilledBySignal(SIGSEGV),
              "at address 0x[0-9a-f]+, in");
}

TEST(fault_report, is_written_to_nobody_without_another_signal) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        ::close(ends[0]);
        ::dup2(ends[1], STDERR_FILENO);
        with_report(calls_one_that_stores);
      },
      KilledBySignal(SIGSEGV), "");
}

TEST(fault_report, tells_arguments_where_the_debugger_may_attach) {
  if (std::system("gdb -nx -q -batch -p $$ 2>/dev/null </dev/null | grep -q detached") != 0)
    GTEST_SKIP() << "gdb is not installed, or may attach to no process here";
  EXPECT_EXIT(with_report(calls_one_that_stores), KilledBySignal(SIGSEGV),
              "at address 0x10, in\n    [^\n]*stores_at \\(address=16\\) at .*"
              "fault_report_test.cpp:[0-9]+\n    [^\n]*calls_one_that_stores ");
}

/// As a debugger that reads a large program on a busy machine.
void put_first_a_debugger_that_hangs(const std::string& folder) {
  std::ofstream(folder + "/gdb") << "#!/bin/sh\ntrap '' TERM\nsleep 30\n";
  std::filesystem::permissions(folder + "/gdb", std::filesystem::perms::owner_all);
  const char* const path = std::getenv("PATH");
  ::setenv("PATH", (folder + ":" + (path == nullptr ? "/usr/bin:/bin" : path)).c_str(), 1);
}

TEST(fault_report, waits_for_no_debugger_that_hangs) {
  std::string folder = ::testing::TempDir() + "debugger-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_EXIT(
      {
        put_first_a_debugger_that_hangs(folder);
        with_report(calls_one_that_stores);
      },
      KilledBySignal(SIGSEGV), "stores_at.*calls_one_that_stores");
  std::filesystem::remove_all(folder);
}

/// Writes what it hears to standard error.
class loud_listener final : public fault_listener {
 public:
  void hear_fault(std::string_view where) noexcept override {
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, "heard <", 7);
    written = ::write(STDERR_FILENO, where.data(), where.size());
    written = ::write(STDERR_FILENO, ">\n", 2);
  }
};

TEST(fault_report, is_heard_at_once_and_with_the_functions) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        with_report(calls_one_that_stores);
      },
      KilledBySignal(SIGSEGV),
      "heard <at address 0x10, in>\n(.*\n)*heard <at address 0x10, in\n(.*\n)*.*stores_at.*\n"
      "(.*\n)*.*means nothing here.>");
}

TEST(fault_report, is_heard_although_nobody_can_name_the_functions) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        ::setenv("PATH", "/nowhere", 1);
        with_report(calls_one_that_stores);
      },
      KilledBySignal(SIGSEGV), "heard <at address 0x10, in>");
}

TEST(fault_report, is_heard_by_nobody_any_more) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        tell_faults_to(nullptr);
        ::setenv("PATH", "/nowhere", 1);
        with_report(calls_one_that_stores);
      },
      KilledBySignal(SIGSEGV), "^[^<]*at address 0x10[^<]*$");
}

TEST(fault_report, says_that_the_stack_is_full) {
  EXPECT_EXIT(with_report(never_ends_in_a_thread), KilledBySignal(SIGSEGV),
              "for want of stack.*never_ends.*fault_report_test.cpp:[0-9]+");
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
} // namespace farcall::test::fault_report_test

#endif
