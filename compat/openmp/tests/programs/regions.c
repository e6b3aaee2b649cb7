/* SPDX-License-Identifier: Apache-2.0 */

// Prints one line for each check of target regions that holds; the test compares the lines.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#pragma omp declare target
int counter = 5;
double weights[4] = {1, 2, 3, 4};
static int twice(int value) { return 2 * value; }
#pragma omp end declare target

struct field {
  int length;
  double* values;
};

static void check(const char* what, int holds) { printf("%s: %s\n", what, holds ? "yes" : "no"); }

static void scalars_and_arrays(void) {
  int sum = 0, left = 20;
  float scale = 0.5F;
  double values[1000];
  for (int i = 0; i < 1000; ++i)
    values[i] = i;
#pragma omp target map(tofrom : sum, values) firstprivate(left, scale)
  {
    for (int i = 0; i < 1000; ++i)
      values[i] *= scale;
    sum = twice(left) + 2;
  }
  check("values are passed", sum == 42 && values[999] == 499.5);
}

static void structs_with_pointers(void) {
  struct field f = {100, malloc(100 * sizeof(double))};
  for (int i = 0; i < f.length; ++i)
    f.values[i] = 1;
#pragma omp target map(to : f) map(tofrom : f.values[0 : f.length])
  for (int i = 0; i < f.length; ++i)
    f.values[i] += i;
  check("pointers in structs are mapped", f.values[99] == 100);
  free(f.values);
}

static void variables(void) {
  int seen = 0;
  counter = 7;
#pragma omp target update to(counter)
#pragma omp target map(from : seen)
  {
    seen = counter;
    counter = 9;
    weights[2] = 30;
  }
#pragma omp target update from(counter, weights)
  check("declared variables are updated", seen == 7 && counter == 9 && weights[2] == 30);
}

static void enclosing_data(void) {
  int n = 10000;
  double* a = malloc(sizeof(double) * (size_t)n);
  double sum = 0;
#pragma omp target data map(alloc : a[0 : n])
  {
#pragma omp target teams distribute parallel for
    for (int i = 0; i < n; ++i)
      a[i] = i;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(tofrom : sum)
    for (int i = 0; i < n; ++i)
      sum += a[i];
#pragma omp target update from(a[n - 1 : 1])
  }
  check("reductions of enclosed data", sum == 49995000.0 && a[n - 1] == n - 1);
  free(a);
}

static void threads(void) {
  int count = 0;
#pragma omp target map(from : count)
#pragma omp parallel num_threads(3)
#pragma omp single
  count = omp_get_num_threads();
  check("regions have threads", count == 3);
}

static void memory_of_devices(void) {
  enum { count = 1000 };
  int last = omp_get_num_devices() - 1;
  int host = omp_get_initial_device();
  int values[count], result[count];
  for (int i = 0; i < count; ++i)
    values[i] = 3 * i;
  int* first = omp_target_alloc(sizeof values, 0);
  int* second = omp_target_alloc(sizeof values, last);
  omp_target_memcpy(first, values, sizeof values, 0, 0, 0, host);
  omp_target_memcpy(second, first, sizeof values, 0, 0, last, 0);
#pragma omp target is_device_ptr(second) device(last)
  for (int i = 0; i < count; ++i)
    second[i] += 1;
  omp_target_memcpy(result, second, sizeof values, 0, 0, host, last);
  omp_target_free(first, 0);
  omp_target_free(second, last);
  check("memory is copied between devices", result[count - 1] == 3 * (count - 1) + 1);
}

static void places(void) {
  int are_devices = 1;
  for (int d = 0; d < omp_get_num_devices(); ++d) {
    int initial = 1, process = 0, number = -1;
#pragma omp target map(from : initial, process, number) device(d)
    {
      initial = omp_is_initial_device();
      number = omp_get_device_num();
      process = getpid();
    }
    are_devices = are_devices && !initial && process != getpid() && number == d;
  }
  check("regions run on devices", are_devices);
}

int main(void) {
  printf("devices: %d\n", omp_get_num_devices());
  scalars_and_arrays();
  structs_with_pointers();
  variables();
  enclosing_data();
  threads();
  memory_of_devices();
  places();
#pragma omp target device(omp_get_num_devices() - 1)
  printf("line of a region\n");
  printf("end\n");
  return 0;
}
