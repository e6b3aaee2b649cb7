/* SPDX-License-Identifier: Apache-2.0 */

// An image of target regions, as a compiler would make it, for tests without an OpenMP compiler.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int table[4] = {1, 2, 3, 4};

void __omp_offloading_1_2_empty_l1(void) {}

// Adds the value to each element.
void __omp_offloading_1_2_add_l2(double* values, uint64_t count, uint64_t value) {
  for (uint64_t i = 0; i < count; ++i)
    values[i] += (double)value;
}

void __omp_offloading_1_2_sum_of_table_l3(int64_t* sum) {
  *sum = 0;
  for (int i = 0; i < 4; ++i)
    *sum += table[i];
}

void __omp_offloading_1_2_tell_process_l4(int64_t* process) { *process = getpid(); }

void __omp_offloading_1_2_fault_l5(void) { raise(SIGSEGV); }

// Ends when the file descriptor's other end is written to; `file` is the path of a pipe.
void __omp_offloading_1_2_meet_l6(const char* file, uint64_t writes) {
  FILE* const pipe = fopen(file, writes ? "w" : "r");
  if (pipe != NULL) fclose(pipe);
}

void __omp_offloading_1_2_print_l7(void) { printf("line of a region\n"); }

// Writes to each cache line.
void __omp_offloading_1_2_change_l10(char* block, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64)
    block[i] ^= 1;
}

// Computes without memory.
void __omp_offloading_1_2_compute_l8(double* result, uint64_t steps) {
  double value = 0;
  for (uint64_t i = 0; i < steps; ++i)
    value = value * 0.999999 + 1 / (1.0 + (double)i);
  *result = value;
}
