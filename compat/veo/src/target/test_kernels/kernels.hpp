// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels in kernels.cpp. Tests find them by name.
extern "C" {
std::uint64_t same(std::uint64_t value);
double same_real(double value);
float same_single(float value);

/// Stores its arguments in `double mixed_seen[20]`.
double mixed(int, double, float, long, double, short, float, double, unsigned char, double, float,
             long, double, int, float, double, float, double, long, double);

/// Returns how many of the arguments are not 1, 4, 7, …
long mismatches_of_forty(long, long, long, long, long, long, long, long, long, long, long, long,
                         long, long, long, long, long, long, long, long, long, long, long, long,
                         long, long, long, long, long, long, long, long, long, long, long, long,
                         long, long, long, long);
long mismatches(long count, ...);
double sum_of_reals(long count, ...);

std::uint64_t stack_misalignment();
std::uint64_t address_of_local();
int frames_of(void** frames, int space);
long use_stack(long levels); // uses 4 KiB and a little per level
long meet(long others);      // returns when so many threads are inside

long sum(const long* values, long count);
long sum_until(const long* first, const long* last);
void fill(long* values, long count, long value);
double corner(const double* matrix, long rows, long columns); // returns the sum of the last row
void copy(void* (*copier)(void*, const void*, unsigned long), void* to, const void* from,
          unsigned long bytes);

int read_far(std::uint64_t address);
int divide(int dividend, int divisor);
void abort_now();
void terminate_now();
void throw_now(); // sets `int unwound` if its stack is unwound
void throw_in_noexcept();
void exit_thread();
void overflow();
void jump_to(void (*code)());
void illegal();
void fault_with_registers_lost();
void fault_in_a_thread();
void fault_in_a_thread_later();
int fault_in_a_child(); // returns the status from waitpid

extern int unwound;
}
