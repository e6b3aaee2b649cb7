// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"

#include "kernel.hpp"
#include "kernel_stack.hpp"
#include "test_kernels/library.hpp"

#include <array>
#include <bit>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::veo::fault_test {
namespace {

using test::library;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::uint64_t word_of(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
std::uint64_t word_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

class fault : public ::testing::Test {
 protected:
  fault() { install_fault_handlers(); }

  template <class... Values>
  kernel::result call(const char* name, Values... values) const {
    const std::array<std::uint64_t, sizeof...(values)> words = {word_of(values)...};
    return kernel(kernels_[name]).call(words, {}, stack_.top());
  }

  /// Returns the signal that ends the call; said() then returns the report.
  template <class... Values>
  int signal_of(const char* name, Values... values) {
    ::testing::internal::CaptureStderr();
    const kernel::result result = call(name, values...);
    said_ = ::testing::internal::GetCapturedStderr();
    return result.fault_signal;
  }

  const std::string& said() const { return said_; }
  const library& kernels() const { return kernels_; }
  const kernel_stack& stack() const { return stack_; }

 private:
  library kernels_{FARCALL_VEO_TEST_KERNELS_DEBUG};
  kernel_stack stack_{std::size_t{8} << 20};
  std::string said_;
};

// --- what ends a call --------------------------------------------------------------------------

TEST_F(fault, bad_access_ends_the_call) {
  EXPECT_EQ(signal_of("read_far", std::int64_t{16}), SIGSEGV);
  EXPECT_THAT(said(), AllOf(HasSubstr("SIGSEGV"), HasSubstr("'read_far'"), HasSubstr("0x10\n"),
                            HasSubstr(FARCALL_VEO_TEST_KERNELS_DEBUG)));
}

TEST_F(fault, division_by_zero_ends_the_call) {
  EXPECT_EQ(signal_of("divide", std::int64_t{1}, std::int64_t{0}), SIGFPE);
  EXPECT_THAT(said(), AllOf(HasSubstr("SIGFPE"), HasSubstr("'divide'")));
}

TEST_F(fault, illegal_instruction_ends_the_call) {
  EXPECT_EQ(signal_of("illegal"), SIGILL);
  EXPECT_THAT(said(), AllOf(HasSubstr("SIGILL"), HasSubstr("'illegal'")));
}

TEST_F(fault, abort_ends_the_call) {
  EXPECT_EQ(signal_of("abort_now"), SIGABRT);
  EXPECT_THAT(said(), AllOf(HasSubstr("SIGABRT"), HasSubstr("'abort_now'")));
  EXPECT_EQ(signal_of("abort_now"), SIGABRT);
}

TEST_F(fault, exceptions_that_nobody_catches_end_the_call) {
  auto& unwound = kernels().variable<int>("unwound");
  EXPECT_EQ(signal_of("throw_now"), SIGABRT);
  // The trace begins at the throw. A process that has terminated before reports less.
  EXPECT_THAT(said(), AnyOf(HasSubstr("nobody catches this"), HasSubstr("called recursively")));
  EXPECT_THAT(said(), HasSubstr("(throw_now+"));
  EXPECT_EQ(unwound, 0);
  EXPECT_EQ(signal_of("throw_in_noexcept"), SIGABRT);
  EXPECT_EQ(signal_of("terminate_now"), SIGABRT);
}

TEST_F(fault, threads_that_end_inside_a_kernel_end_the_call) {
  EXPECT_EQ(signal_of("exit_thread"), SIGABRT);
}

TEST_F(fault, stack_overflow_ends_the_call) {
  EXPECT_EQ(signal_of("overflow"), SIGSEGV);
  EXPECT_THAT(said(), HasSubstr("the stack has probably overflowed"));
}

TEST_F(fault, jump_to_nowhere_is_traced_to_its_caller) {
  EXPECT_EQ(signal_of("jump_to", std::int64_t{0}), SIGSEGV);
  EXPECT_THAT(said(), HasSubstr("(jump_to+"));
  EXPECT_EQ(signal_of("jump_to", std::int64_t{64}), SIGSEGV);
}

TEST_F(fault, address_without_a_kernel_ends_the_call) {
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{0x10}}) {
    ::testing::internal::CaptureStderr();
    const kernel nowhere(reinterpret_cast<const void*>(address));
    EXPECT_EQ(nowhere.call({}, {}, stack().top()).fault_signal, SIGSEGV);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("SIGSEGV"));
  }
}

TEST_F(fault, restores_what_the_kernel_has_lost) {
  volatile std::int64_t seed = 3;
  // More values than there are callee-saved registers.
  const std::int64_t a = seed * 3;
  const std::int64_t b = seed * 5;
  const std::int64_t c = seed * 7;
  const std::int64_t d = seed * 11;
  const std::int64_t e = seed * 13;
  const double x = static_cast<double>(seed) / 2;
  const double y = static_cast<double>(seed) / 4;
  EXPECT_EQ(signal_of("fault_with_registers_lost"), SIGSEGV);
  EXPECT_THAT(said(), HasSubstr("'fault_with_registers_lost'"));
  EXPECT_EQ(a + b + c + d + e, 3 * (3 + 5 + 7 + 11 + 13));
  EXPECT_EQ(x + y, 2.25);
}

TEST_F(fault, works_on_the_stack_of_the_caller_too) {
  ::testing::internal::CaptureStderr();
  const std::array<std::uint64_t, 1> words = {16};
  EXPECT_EQ(kernel(kernels()["read_far"]).call(words, {}, nullptr).fault_signal, SIGSEGV);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("read_far"));
}

TEST_F(fault, leaves_a_thread_that_can_call_and_end) {
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(signal_of("read_far", std::int64_t{16}), SIGSEGV);
    const kernel::result again = call("use_stack", std::int64_t{100});
    EXPECT_EQ(again.fault_signal, 0);
    EXPECT_EQ(again.value, 101U);
  }
}

TEST_F(fault, on_several_threads_ends_each_call) {
  std::array<int, 4> signals{};
  std::vector<std::thread> threads;
  ::testing::internal::CaptureStderr();
  for (int& signal : signals) {
    threads.emplace_back([&] {
      const kernel_stack own(std::size_t{1} << 20);
      const std::array<std::uint64_t, 1> words = {16};
      signal = kernel(kernels()["read_far"]).call(words, {}, own.top()).fault_signal;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("read_far"));
  EXPECT_EQ(signals, (std::array{SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV}));
}

TEST_F(fault, fault_in_a_forked_process_ends_that_process) {
  ::testing::internal::CaptureStderr();
  const kernel::result result = call("fault_in_a_child");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("read_far"));
  EXPECT_EQ(result.fault_signal, 0);
  EXPECT_TRUE(WIFSIGNALED(static_cast<int>(result.value)));
  EXPECT_EQ(WTERMSIG(static_cast<int>(result.value)), SIGSEGV);
}

// --- signal stack ------------------------------------------------------------------------------

TEST_F(fault, stack_of_the_handler_goes_with_its_thread) {
  stack_t before{};
  stack_t inside{};
  std::thread([&] {
    ::sigaltstack(nullptr, &before);
    call("use_stack", std::int64_t{1});
    ::sigaltstack(nullptr, &inside);
  }).join();
  EXPECT_EQ(inside.ss_flags & SS_DISABLE, 0);
  ASSERT_NE(inside.ss_sp, nullptr);
  EXPECT_NE(inside.ss_sp, before.ss_sp);
  unsigned char resident = 0;
  EXPECT_NE(::mincore(inside.ss_sp, 1, &resident), 0) << "still mapped";
}

// --- faults that end the process ---------------------------------------------------------------

class fatal_fault : public fault {
 protected:
  fatal_fault() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

using fatal_fault_death_test = fatal_fault;

TEST_F(fatal_fault_death_test, thread_of_a_kernel_ends_the_call_first) {
  EXPECT_EXIT(::_exit(call("fault_in_a_thread").fault_signal), ::testing::ExitedWithCode(SIGSEGV),
              "which a kernel has made, got SIGSEGV, for an access to 0x10(.|\n)*"
              "kernel 'fault_in_a_thread' of .* ends with it");
}

TEST_F(fatal_fault_death_test, thread_of_a_kernel_ends_the_process_then) {
  EXPECT_EXIT(
      {
        call("fault_in_a_thread");
        for (;;)
          ::pause();
      },
      ::testing::KilledBySignal(SIGSEGV), "which a kernel has made, got SIGSEGV");
}

TEST_F(fatal_fault_death_test, thread_of_a_kernel_ends_only_its_creators_call) {
  // The call of another thread continues, and exits the process with its status.
  EXPECT_EXIT(
      {
        std::thread other([&] {
          const kernel_stack own(std::size_t{1} << 20);
          const auto waits = kernel(kernels()["meet"]);
          const std::array<std::uint64_t, 1> two = {2};
          ::_exit(waits.call(two, {}, own.top()).fault_signal == 0 ? 40 : 41);
        });
        ::usleep(100000);
        const int signal = call("fault_in_a_thread").fault_signal;
        if (signal != SIGSEGV) ::_exit(42);
        call("meet", std::int64_t{2});
        other.join();
      },
      ::testing::ExitedWithCode(40), "which a kernel has made, got SIGSEGV");
}

TEST_F(fatal_fault_death_test, in_a_thread_that_a_kernel_left_behind) {
  EXPECT_EXIT(
      {
        call("fault_in_a_thread_later");
        ::sleep(10);
      },
      ::testing::KilledBySignal(SIGSEGV), "which runs no kernel, got SIGSEGV");
}

TEST_F(fatal_fault_death_test, outside_of_any_kernel) {
  EXPECT_EXIT(
      {
        call("use_stack", std::int64_t{1});
        std::raise(SIGFPE);
      },
      ::testing::KilledBySignal(SIGFPE), "which runs no kernel, got SIGFPE");
}

TEST_F(fatal_fault_death_test, sent_by_another_process) {
  EXPECT_EXIT(
      {
        // The signal arrives on this thread, inside the kernel.
        const pid_t here = ::getpid();
        if (::fork() == 0) {
          ::usleep(100000);
          ::kill(here, SIGABRT);
          ::_exit(0);
        }
        call("meet", std::int64_t{2});
      },
      ::testing::KilledBySignal(SIGABRT), "kernel 'meet' .* got SIGABRT from process");
}

// --- tagged addresses --------------------------------------------------------------------------

constexpr int own_process = 5;

std::uint64_t tagged(const void* address, int process = own_process) {
  return word_of(address) | std::uint64_t{1} << 63U | static_cast<std::uint64_t>(process) << 59U;
}

const void* as_pointer(std::uint64_t word) { return reinterpret_cast<const void*>(word); }

class tagged_address : public fault {
 protected:
  /// Page of numbers between unmapped pages, so that its end is not mapped.
  static constexpr std::int64_t count = 512;
  long* numbers() { return numbers_; }

  void SetUp() override {
    strip_tags_of(own_process);
    void* pages =
        ::mmap(nullptr, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    auto* const before = static_cast<char*>(pages);
    ::munmap(before, 8 * page);
    ::munmap(before + 9 * page, 7 * page);
    numbers_ = reinterpret_cast<long*>(before + 8 * page);
    for (long index = 0; index < count; ++index)
      numbers_[index] = index;
  }
  void TearDown() override {
    ::munmap(numbers_, page);
    strip_tags_of(-2);
  }

  static constexpr std::uint64_t sum_of_numbers = 512 * 511 / 2;

 private:
  static constexpr std::size_t page = 4096;
  long* numbers_ = nullptr;
};

TEST_F(tagged_address, can_be_read) {
  EXPECT_EQ(call("sum", as_pointer(tagged(numbers())), count).value, sum_of_numbers);
}

TEST_F(tagged_address, can_be_written) {
  EXPECT_EQ(call("fill", as_pointer(tagged(numbers())), count, std::int64_t{7}).fault_signal, 0);
  for (long index = 0; index < count; ++index)
    EXPECT_EQ(numbers()[index], index + 7);
}

TEST_F(tagged_address, can_be_the_end_of_a_loop) {
  EXPECT_EQ(
      call("sum_until", as_pointer(tagged(numbers())), as_pointer(tagged(numbers() + count))).value,
      sum_of_numbers);
}

// The tag is only in a sum of registers: on x86-64 the handler needs Zydis.
#if !defined(__x86_64__) || FARCALL_VEO_HAS_ZYDIS

TEST_F(tagged_address, can_lie_before_the_first_element) {
  constexpr std::int64_t rows = 4000;
  constexpr std::int64_t columns = 40;
  std::vector<double> matrix(static_cast<std::size_t>(rows * columns), 1.0);
  matrix.back() = 100;
  const kernel corner(kernels()["corner"],
                      signature{value_class::real64, {value_class::integer64}, false});
  const std::array<std::uint64_t, 3> words = {tagged(matrix.data()), rows, columns};
  const kernel::result result = corner.call(words, {}, nullptr);
  EXPECT_EQ(result.fault_signal, 0);
  EXPECT_EQ(std::bit_cast<double>(result.value), 139);
}

#endif

TEST_F(tagged_address, can_be_given_to_the_c_library) {
  // libc's memcpy, not a sanitizer's.
  void* libc = ::dlopen("libc.so.6", RTLD_NOW);
  ASSERT_NE(libc, nullptr);
  const void* memcpy = ::dlsym(libc, "memcpy");
  for (const std::size_t bytes : {1U, 8U, 100U, 1000U, 4096U}) {
    std::vector<char> copied(bytes);
    EXPECT_EQ(call("copy", memcpy, as_pointer(tagged(copied.data())), as_pointer(tagged(numbers())),
                   static_cast<std::int64_t>(bytes))
                  .fault_signal,
              0);
    EXPECT_EQ(std::memcmp(copied.data(), numbers(), bytes), 0) << bytes;
  }
  ::dlclose(libc);
}

TEST_F(tagged_address, can_have_any_process_if_all_are_stripped) {
  strip_tags_of(-1);
  for (int process = 0; process < 16; ++process) {
    EXPECT_EQ(call("sum", as_pointer(tagged(numbers(), process)), count).value, sum_of_numbers);
  }
}

TEST_F(tagged_address, to_unmapped_memory_is_a_fault) {
  numbers()[0] = 0;
  EXPECT_EQ(signal_of("read_far", as_pointer(tagged(as_pointer(16)))), SIGSEGV);
}

// Other processors ignore all tags.
#if defined(__x86_64__)

TEST_F(tagged_address, with_another_process_is_a_fault) {
  EXPECT_EQ(signal_of("sum", as_pointer(tagged(numbers(), 4)), count), SIGSEGV);
  EXPECT_THAT(said(), HasSubstr("no possible address"));
}

TEST_F(tagged_address, is_a_fault_until_one_says_which) {
  strip_tags_of(16);
  EXPECT_EQ(signal_of("sum", as_pointer(tagged(numbers())), count), SIGSEGV);
}

TEST_F(tagged_address, stays_in_values_that_are_no_addresses) {
  // The last argument looks like a tagged address, but no memory is there.
  const std::uint64_t number = tagged(as_pointer(0x0123456789ABCDE));
  EXPECT_EQ(call("fill", as_pointer(tagged(numbers())), std::int64_t{1},
                 static_cast<std::int64_t>(number))
                .fault_signal,
            0);
  EXPECT_EQ(static_cast<std::uint64_t>(numbers()[0]), number);
}

#endif

} // namespace
} // namespace farcall::veo::fault_test
