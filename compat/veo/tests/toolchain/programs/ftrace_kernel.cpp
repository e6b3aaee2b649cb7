// SPDX-License-Identifier: Apache-2.0

// Calls to count. All calls are through pointers that optimisers do not resolve.
#include <ftrace.h>
#include <pthread.h>

namespace numbers {

__attribute__((noinline)) int twice(int value) { return 2 * value; }

} // namespace numbers

extern "C" {

int (*volatile leaf)(int) = numbers::twice;

__attribute__((noinline)) int fibonacci(int n) {
  int (*volatile again)(int) = fibonacci;
  return n < 2 ? n : again(n - 1) + again(n - 2);
}

__attribute__((noinline)) void* in_thread(void*) {
  for (int i = 0; i < 3; ++i) {
    leaf(i);
  }
  return nullptr;
}

// numbers::twice is called 4 + 3 + 3 times, in_thread twice, the region entered 4 times.
int kernel() {
  int sum = fibonacci(5);
  for (int i = 0; i < 4; ++i) {
    ftrace_region_begin("a region");
    sum += leaf(i);
    ftrace_region_end("a region");
  }
  in_thread(nullptr);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, in_thread, nullptr) == 0) {
    pthread_join(thread, nullptr);
  }
  return sum;
}
}
