// SPDX-License-Identifier: Apache-2.0

// Kernels that report their arguments, and kernels that fail.

#include "kernels.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include <execinfo.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

[[gnu::noinline]] long deeper(long levels) {
  std::array<volatile unsigned char, 4096> frame;
  frame[0] = static_cast<unsigned char>(levels);
  frame[4095] = 1;
  const long below = levels == 0 ? 0 : deeper(levels - 1);
  return below + frame[4095];
}

void* read_nowhere(void* /*unused*/) {
  ::pthread_setname_np(::pthread_self(), "renamed"); // the fault handler must not depend on names
  read_far(16);
  return nullptr;
}

[[gnu::noinline]] void throws() { throw std::runtime_error("nobody catches this"); }

struct noticed {
  // Runs if the stack is unwound, which would be too late for a trace.
  ~noticed() { unwound = 1; }
};

[[gnu::noinline]] void throws_inside() noexcept { throws(); }

} // namespace

std::array<double, 20> mixed_seen;
std::atomic<int> threads_inside;
int unwound;

// --- arguments ----------------------------------------------------------------------------------

std::uint64_t same(std::uint64_t value) { return value; }
double same_real(double value) { return value; }
float same_single(float value) { return value; }

double mixed(int a0, double a1, float a2, long a3, double a4, short a5, float a6, double a7,
             unsigned char a8, double a9, float a10, long a11, double a12, int a13, float a14,
             double a15, float a16, double a17, long a18, double a19) {
  mixed_seen = {static_cast<double>(a0),
                a1,
                static_cast<double>(a2),
                static_cast<double>(a3),
                a4,
                static_cast<double>(a5),
                static_cast<double>(a6),
                a7,
                static_cast<double>(a8),
                a9,
                static_cast<double>(a10),
                static_cast<double>(a11),
                a12,
                static_cast<double>(a13),
                static_cast<double>(a14),
                a15,
                static_cast<double>(a16),
                a17,
                static_cast<double>(a18),
                a19};
  return a19;
}

#define TEN(x) x##0, x##1, x##2, x##3, x##4, x##5, x##6, x##7, x##8, x##9
#define TEN_LONGS(x)                                                                               \
  long x##0, long x##1, long x##2, long x##3, long x##4, long x##5, long x##6, long x##7,          \
      long x##8, long x##9

long mismatches_of_forty(TEN_LONGS(a), TEN_LONGS(b), TEN_LONGS(c), TEN_LONGS(d)) {
  long wrong = 0;
  long expected = 1;
  for (const long value : {TEN(a), TEN(b), TEN(c), TEN(d)}) {
    wrong += value == expected ? 0 : 1;
    expected += 3;
  }
  return wrong;
}

long mismatches(long count, ...) {
  std::va_list values;
  va_start(values, count);
  long wrong = 0;
  for (long index = 0; index < count; ++index) {
    wrong += va_arg(values, long) == 3 * index + 1 ? 0 : 1;
  }
  va_end(values);
  return wrong;
}

double sum_of_reals(long count, ...) {
  std::va_list values;
  va_start(values, count);
  double sum = 0;
  for (long index = 0; index < count; ++index)
    sum += va_arg(values, double);
  va_end(values);
  return sum;
}

std::uint64_t stack_misalignment() {
  return reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)) % 16;
}

std::uint64_t address_of_local() {
  return reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
}

int frames_of(void** frames, int space) { return ::backtrace(frames, space); }

long use_stack(long levels) { return deeper(levels); }

long meet(long others) {
  threads_inside.fetch_add(1);
  while (threads_inside.load() < others) {
  }
  return others;
}

// --- memory -------------------------------------------------------------------------------------

long sum(const long* values, long count) {
  long sum = 0;
  for (long index = 0; index < count; ++index)
    sum += values[index];
  return sum;
}

long sum_until(const long* first, const long* last) {
  long sum = 0;
  for (; first != last; ++first)
    sum += *first;
  return sum;
}

void fill(long* values, long count, long value) {
  for (long index = 0; index < count; ++index)
    values[index] = value + index;
}

// Sums the last row of a matrix whose indices start at 1, as in Fortran.
double corner(const double* matrix, long rows, long columns) {
  const double* origin = matrix - 1 - rows;
  double sum = 0;
  for (long column = 1; column <= columns; ++column) {
    asm volatile("" : "+r"(origin)); // keeps the compiler from using the matrix's own address
    sum += origin[rows + column * rows];
  }
  return sum;
}

void copy(void* (*copier)(void*, const void*, unsigned long), void* to, const void* from,
          unsigned long bytes) {
  copier(to, from, bytes);
}

// --- faults -------------------------------------------------------------------------------------

[[gnu::noinline]] int read_far(std::uint64_t address) {
  return *reinterpret_cast<const volatile int*>(address);
}

int divide(int dividend, int divisor) {
#if defined(__x86_64__)
  return dividend / divisor;
#else
  // On this processor a division by zero is no fault.
  if (divisor == 0) ::raise(SIGFPE);
  return dividend;
#endif
}

void abort_now() { std::abort(); }
void terminate_now() { std::terminate(); }
void throw_now() {
  const noticed guard;
  throws();
}
void throw_in_noexcept() { throws_inside(); }
void exit_thread() { ::pthread_exit(nullptr); }
void overflow() { deeper(1L << 40); }
void jump_to(void (*code)()) {
  code();
  asm volatile(""); // prevents a tail call
}

void illegal() {
#if defined(__x86_64__)
  asm volatile("ud2");
#else
  asm volatile("udf #0");
#endif
}

void fault_with_registers_lost() {
#if defined(__x86_64__)
  asm volatile("std\n\t"
               "fld1\n\t"
               "xorl %%eax, %%eax\n\t"
               "movq %%rax, %%rbx\n\t"
               "movq %%rax, %%rbp\n\t"
               "movq %%rax, %%r12\n\t"
               "movq %%rax, %%r13\n\t"
               "movq %%rax, %%r14\n\t"
               "movq %%rax, %%r15\n\t"
               "movq %%rax, %%rsp\n\t"
               "movq (%%rax), %%rax" ::
                   : "memory");
#else
  asm volatile("mov x9, #0\n\t"
               "fmov d8, x9\n\t"
               "fmov d15, x9\n\t"
               "mov x19, x9\n\t"
               "mov x20, x9\n\t"
               "mov x28, x9\n\t"
               "mov x29, x9\n\t"
               "mov sp, x9\n\t"
               "ldr x9, [x9]" ::
                   : "memory");
#endif
  __builtin_unreachable();
}

void fault_in_a_thread() {
  pthread_t thread;
  ::pthread_create(&thread, nullptr, read_nowhere, nullptr);
  ::pthread_join(thread, nullptr);
}

void fault_in_a_thread_later() {
  pthread_t thread;
  ::pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        ::usleep(200000);
        return read_nowhere(nullptr);
      },
      nullptr);
}

int fault_in_a_child() {
  const pid_t child = ::fork();
  if (child == 0) read_far(16);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}
