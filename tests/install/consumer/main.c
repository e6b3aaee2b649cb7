// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.h>

#include <stdio.h>
#include <string.h>

static void add(fc_reply* reply, const void* bytes, size_t size, void* user) {
  int numbers[2] = {0, 0};
  (void)user;
  if (size == sizeof numbers) memcpy(numbers, bytes, size);
  const int sum = numbers[0] + numbers[1];
  fc_reply_bytes(reply, &sum, sizeof sum);
}

int main(int argc, char** argv) {
  fc_job* job = NULL;
  fc_node target;
  const int numbers[2] = {40, 2};
  int sum = 0;
  if (fc_register("add", &add, NULL) != FC_OK || fc_job_start(&argc, argv, NULL, &job) != FC_OK ||
      fc_node_at(job, 1, &target) != FC_OK ||
      fc_call(target, fc_named("add"), numbers, sizeof numbers, &sum, sizeof sum, NULL) != FC_OK) {
    fprintf(stderr, "%s\n", fc_error_text());
    return 1;
  }
  fc_job_end(job);
  printf("40 + 2 = %d, computed in another process\n", sum);
  return sum == 42 ? 0 : 1;
}
