// SPDX-License-Identifier: Apache-2.0

// An inner product in C, spread over all targets: memory there, handlers by name, futures.
//
//   example-40-c                           one target process
//   example-40-c --farcall-targets=shm:3   three of them
#include <farcall/farcall.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1200 };

/// Message of the host: two views of memory on the target.
struct vectors {
  fc_span x;
  fc_span y;
};

static void inner_product(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  struct vectors v;
  void* x = NULL;
  void* y = NULL;
  if (size != sizeof v) {
    fc_reply_error(reply, "wrong size", "two spans are wanted");
    return;
  }
  memcpy(&v, bytes, sizeof v);
  if (fc_map(NULL, v.x, &x) != FC_OK || fc_map(NULL, v.y, &y) != FC_OK) {
    fc_reply_error(reply, fc_status_name(fc_error_status()), fc_error_text());
    return;
  }
  double sum = 0;
  for (uint64_t i = 0; i < v.x.bytes / sizeof(double); ++i)
    sum += ((const double*)x)[i] * ((const double*)y)[i];
  fc_reply_bytes(reply, &sum, sizeof sum);
}

/// Ends the program with an error message.
static void need(fc_status status) {
  if (status == FC_OK) return;
  fprintf(stderr, "%s: %s\n", fc_status_name(status), fc_error_text());
  exit(1);
}

int main(int argc, char** argv) {
  // In a target, fc_job_start() serves calls and does not return: register first.
  need(fc_register("inner product", &inner_product, NULL));
  fc_job* job = NULL;
  need(fc_job_start(&argc, argv, NULL, &job));

  double x[COUNT];
  double y[COUNT];
  double expected = 0;
  for (int i = 0; i < COUNT; ++i) {
    x[i] = 0.5;
    y[i] = i;
    expected += x[i] * y[i];
  }

  const fc_function f = fc_named("inner product");
  const uint32_t targets = fc_job_size(job) - 1;
  struct vectors* parts = calloc(targets, sizeof *parts);
  fc_future** futures = calloc(targets, sizeof(fc_future*));
  if (parts == NULL || futures == NULL) return 1;
  for (uint32_t t = 0; t < targets; ++t) {
    const size_t first = COUNT * (size_t)t / targets;
    const size_t bytes = (COUNT * (size_t)(t + 1) / targets - first) * sizeof(double);
    fc_node target;
    need(fc_node_at(job, t + 1, &target));
    need(fc_allocate(target, bytes, &parts[t].x));
    need(fc_allocate(target, bytes, &parts[t].y));
    need(fc_put(job, parts[t].x, x + first, bytes));
    need(fc_put(job, parts[t].y, y + first, bytes));
    need(fc_call_async(target, f, &parts[t], sizeof parts[t], &futures[t]));
  }

  double sum = 0;
  for (uint32_t t = 0; t < targets; ++t) {
    const void* part = NULL;
    size_t size = 0;
    need(fc_future_get(futures[t], &part, &size));
    double value = 0;
    if (size == sizeof value) memcpy(&value, part, size);
    sum += value;
    fc_future_drop(futures[t]);
    need(fc_release(job, parts[t].x));
    need(fc_release(job, parts[t].y));
  }
  free(parts);
  free(futures);
  fc_job_end(job);
  printf("inner product of %d elements on %u targets: %.1f, expected %.1f\n", COUNT, targets, sum,
         expected);
  return sum == expected ? 0 : 1;
}
