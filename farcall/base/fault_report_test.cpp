// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fault_report.hpp>
#include <tests/helper_programs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

// Not with sanitizers, which report faults themselves.
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

/// A value that the compiler cannot know.
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

/// Enough time to find lines on a busy machine.
constexpr std::chrono::seconds long_time{60};

constexpr fault_report_options with_lines{.time = long_time, .gives_way = false};

int with_report(int (*faults)(), fault_report_options options = with_lines) {
  report_faults(3, options);
  return faults();
}

TEST(fault_report, names_the_functions_with_their_lines) {
  EXPECT_EXIT(
      with_report(calls_one_that_stores), KilledBySignal(SIGSEGV),
      "node 3 got SIGSEGV at address 0x10.*stores_at ?\\((unsigned long|address=16)\\) at .*"
      "fault_report_test.cpp:[0-9]+.*calls_one_that_stores.*fault_report_test.cpp:[0-9]+");
}

TEST(fault_report, names_the_caller_of_a_non_function) {
  EXPECT_EXIT(with_report(calls_no_function), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x10.*calls_no_function");
}

TEST(fault_report, names_the_caller_of_null) {
  EXPECT_EXIT(with_report(calls_null), KilledBySignal(SIGSEGV),
              "node 3 got SIGSEGV at address 0x0.*calls_null");
}

TEST(fault_report, tells_addresses_as_they_are) {
  EXPECT_EXIT(with_report(reads_an_address_of_no_process), KilledBySignal(SIGSEGV),
              "at an address (that no process can have|0x4141414141414141)\n");
  EXPECT_EXIT(with_report(overruns_an_array_of_a_handler), KilledBySignal(SIGSEGV),
              "at address 0x[0-9a-f]+\n[^\n]*( was in\n|are left out: the stack cannot be read)");
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
              "at address 0x10\n[^\n]* node 3 was in\n    [^\n]*stores_at \\(address=16\\) at .*"
              "fault_report_test.cpp:[0-9]+\n    [^\n]*calls_one_that_stores ");
}

TEST(fault_report, waits_for_no_debugger_that_hangs) {
  // Acts like a debugger that reads a large program on a busy machine.
  const helper_programs slow({"gdb"}, "trap '' TERM\nsleep 1000\n");
  EXPECT_EXIT(
      {
        ::setenv("PATH", slow.path().c_str(), 1);
        with_report(calls_one_that_stores, {.time = std::chrono::seconds(10), .gives_way = false});
      },
      KilledBySignal(SIGSEGV), "stores_at.*calls_one_that_stores");
}

TEST(fault_report, is_dropped_with_one_line_and_leaves_no_process) {
  const helper_programs slow({"gdb", "addr2line"}, "echo noise >&2\nsleep 1000 &\n"
                                                   "echo $! >>\"$(dirname \"$0\")/pids\"\nwait\n");
  EXPECT_EXIT(
      {
        ::setenv("PATH", slow.path().c_str(), 1);
        with_report(calls_one_that_stores,
                    {.time = std::chrono::milliseconds(700), .gives_way = false});
      },
      KilledBySignal(SIGSEGV),
      "^farcall.[0-9]+. error: node 3 got SIGSEGV at address 0x10\n"
      "farcall.[0-9]+. error: node 3: the functions with their lines are left out: finding "
      "them takes too long\n$");
  std::ifstream all(slow.file("pids"));
  for (pid_t pid = 0; all >> pid;) {
    // A killed process may take a while to end.
    while (::kill(pid, 0) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(fault_report, takes_only_time_that_no_other_process_wants) {
  const helper_programs policy({"gdb", "addr2line"},
                               "echo \"policy_$(cut -d' ' -f41 /proc/$$/stat) at file.c:1\"\n");
  EXPECT_EXIT(
      {
        ::setenv("PATH", policy.path().c_str(), 1);
        with_report(calls_one_that_stores, {.time = long_time, .gives_way = true});
      },
      KilledBySignal(SIGSEGV), "policy_" + std::to_string(SCHED_IDLE) + " at");
}

/// Writes all texts to standard error.
class loud_listener : public fault_listener {
 public:
  void receive_fault(int signal, std::string_view where, bool has_names) noexcept override {
    write(has_names ? "names " : "place ");
    write(signal == SIGSEGV ? "SIGSEGV <" : signal == SIGABRT ? "SIGABRT <" : "other <");
    write(where);
    write(">\n");
  }

 protected:
  static void write(std::string_view text) noexcept {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  }
};

TEST(fault_report, is_told_at_once_and_with_the_functions) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        with_report(calls_one_that_stores, {.kind = crash_report::names});
      },
      KilledBySignal(SIGSEGV),
      "^place SIGSEGV <at address 0x10>\n"
      "farcall.[0-9]+. error: node 3 got SIGSEGV at address 0x10\n"
      "names SIGSEGV <at address 0x10, in\n    [^\n]*stores_at[^\n]*\n    [^\n]*calls_one_that_"
      "stores(.*\n)*[^\n]*means nothing here.>\n$");
}

TEST(fault_report, is_told_to_nobody_if_it_is_off) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        with_report(calls_one_that_stores, {.kind = crash_report::off});
      },
      KilledBySignal(SIGSEGV), "^$");
}

TEST(fault_report, is_told_to_nobody_any_more) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        tell_faults_to(nullptr);
        with_report(calls_one_that_stores, {.kind = crash_report::names});
      },
      KilledBySignal(SIGSEGV), "^[^<]*at address 0x10[^<]*$");
}

TEST(fault_report, is_told_of_no_other_process) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        report_faults(3, {.kind = crash_report::names});
        if (::fork() == 0) calls_one_that_stores();
        int status = 0;
        ::wait(&status);
        ::_exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
      },
      ::testing::ExitedWithCode(SIGSEGV), "^[^<]*at address 0x10[^<]*$");
}

std::atomic<unsigned> changed_by_another{0};

/// Checks whether another thread still runs.
class watchful_listener final : public loud_listener {
 public:
  void receive_fault(int /*signal*/, std::string_view /*where*/, bool has_names) noexcept override {
    const unsigned before = changed_by_another.load();
    const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    ::nanosleep(&pause, nullptr);
    if (!has_names) write(changed_by_another.load() == before ? "it has stopped\n" : "it runs\n");
  }
};

TEST(fault_report, is_told_once_other_threads_have_stopped) {
  EXPECT_EXIT(
      {
        watchful_listener all;
        tell_faults_to(&all);
        std::thread([] {
          for (;;)
            changed_by_another.fetch_add(1);
        }).detach();
        while (changed_by_another.load() == 0)
          std::this_thread::yield();
        with_report(calls_one_that_stores, {.kind = crash_report::names});
      },
      KilledBySignal(SIGSEGV), "^it has stopped\n");
}

/// Blocks, as if it waited for a lock.
class stuck_listener final : public fault_listener {
 public:
  void receive_fault(int /*signal*/, std::string_view /*where*/,
                     bool /*has_names*/) noexcept override {
    for (;;)
      ::pause();
  }
};

TEST(fault_report, ends_by_the_signal_of_the_fault) {
  EXPECT_EXIT(
      {
        stuck_listener all;
        tell_faults_to(&all);
        with_report(calls_one_that_stores, {.time = std::chrono::milliseconds(50)});
      },
      KilledBySignal(SIGSEGV), "");
}

TEST(fault_report, reports_abort) {
  EXPECT_EXIT(
      {
        loud_listener all;
        tell_faults_to(&all);
        with_report([]() -> int { std::abort(); }, {.kind = crash_report::names});
      },
      KilledBySignal(SIGABRT),
      "^place SIGABRT <>\nfarcall.[0-9]+. error: node 3 got SIGABRT\nnames SIGABRT <in\n");
  EXPECT_EXIT(with_report([]() -> int { std::abort(); }), KilledBySignal(SIGABRT),
              "node 3 got SIGABRT\n.*reports_abort.*fault_report_test.cpp:[0-9]+");
}

TEST(fault_report, reports_uncaught_exceptions) {
  EXPECT_EXIT(
      {
        report_faults(3, {.kind = crash_report::names});
        std::thread([] { throw std::runtime_error("it is broken"); }).join();
      },
      KilledBySignal(SIGABRT),
      "node 3 got SIGABRT, by an uncaught exception, std::runtime_error: it is broken\n$");
  EXPECT_EXIT(
      {
        report_faults(3, {.kind = crash_report::names});
        std::thread([] { throw 7; }).join();
      },
      KilledBySignal(SIGABRT), "node 3 got SIGABRT, by an uncaught exception, int\n$");
}

TEST(fault_report, ignores_an_abort_sent_by_another_process) {
  EXPECT_EXIT(
      {
        report_faults(3, {.kind = crash_report::names});
        const pid_t self = ::getpid();
        if (::fork() == 0) ::_exit(::kill(self, SIGABRT));
        for (;;)
          ::pause();
      },
      KilledBySignal(SIGABRT), "^$");
}

TEST(fault_report, reports_a_full_stack) {
  EXPECT_EXIT(with_report(never_ends_in_a_thread), KilledBySignal(SIGSEGV),
              "for want of stack[^\n]*\n.*never_ends.*fault_report_test.cpp:[0-9]+");
}

TEST(fault_report, leaves_signals_that_the_program_handles) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { ::_exit(7); });
        with_report(calls_one_that_stores);
      },
      ::testing::ExitedWithCode(7), "^$");
}

TEST(fault_report, ignores_signals_that_are_sent) {
  EXPECT_EXIT(with_report([] { return ::raise(SIGSEGV); }), KilledBySignal(SIGSEGV), "^$");
}

// ---- texts for listeners ------------------------------------------------------------------------

TEST(readable_fault, names_functions_as_programs_do) {
  EXPECT_EQ(readable_fault("at address 0x10, in\n    _Z9stores_atm\n    main\n    An address"),
            "at address 0x10, in\n    stores_at(unsigned long)\n    main\n    An address");
  EXPECT_EQ(readable_fault("in\n    0x12 in libother.so"), "in\n    0x12 in libother.so");
}

TEST(readable_fault, ends_with_the_called_function) {
  const std::string call = "_ZN7farcall6detail11remote_callIXadL_Z5solveiEEE3runEv";
  EXPECT_EQ(readable_fault("in\n    _Z5solvei\n    " + call + "\n    main"), "in\n    solve(int)");
  EXPECT_EQ(readable_fault("in\n    " + call + "\n    main"), "in\n    a call of &(solve(int))");
}

TEST(readable_fault, drops_in_without_functions) {
  EXPECT_EQ(readable_fault("at address 0x10, in\n    _ZN7farcall2am6engine5serveEj\n    _start"),
            "at address 0x10");
  EXPECT_EQ(readable_fault("in\n    abort\n    __pthread_kill_implementation"), "");
  EXPECT_EQ(readable_fault("at address 0x10"), "at address 0x10");
  EXPECT_EQ(readable_fault(""), "");
}

TEST(fault_in_one_line, separates_functions_and_advice) {
  EXPECT_EQ(
      fault_in_one_line("node 1 was killed by signal 11 (SIGSEGV): at address 0x10, in\n"
                        "    stores_at(unsigned long)\n    main\n    An address means nothing."),
      "node 1 was killed by signal 11 (SIGSEGV): at address 0x10, in "
      "stores_at(unsigned long), main (an address means nothing)");
  EXPECT_EQ(fault_in_one_line("node 1: in\n    f()\n    g()"), "node 1: in f(), g()");
  EXPECT_EQ(fault_in_one_line("node 1 has exited with code 3"), "node 1 has exited with code 3");
  EXPECT_EQ(fault_in_one_line(""), "");
}

} // namespace
} // namespace farcall::test::fault_report_test

#endif
