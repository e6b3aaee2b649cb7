// SPDX-License-Identifier: Apache-2.0

/* Functions for trace_test.py that are called by names. Two of the names are encodings of C++
 * types. */
#include <farcall/farcall.h>

#include <stdio.h>

static void run(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_reply_bytes(reply, bytes, size);
}

int main(int count, char** words) {
  static const char* const names[] = {"f", "Pi", "solve \"rows\""};
  for (int i = 0; i < 3; ++i)
    fc_register(names[i], run, NULL);
  fc_job* job = NULL;
  fc_node node;
  char result[4];
  if (fc_job_start(&count, words, NULL, &job) != FC_OK || fc_node_at(job, 1, &node) != FC_OK) {
    fprintf(stderr, "%s\n", fc_error_text());
    return 1;
  }
  for (int i = 0; i < 3; ++i) {
    if (fc_call(node, fc_named(names[i]), "abc", 4, result, sizeof result, NULL) != FC_OK) return 1;
  }
  if (fc_post(node, fc_named("f"), "abc", 4) != FC_OK) return 1;
  /* This message is larger than a record of the trace. */
  static char bytes[1000000];
  if (fc_call(node, fc_named("f"), bytes, sizeof bytes, bytes, sizeof bytes, NULL) != FC_OK)
    return 1;
  if (fc_call(node, fc_named("missing"), "abc", 4, NULL, 0, NULL) == FC_OK) return 1;
  fc_job_end(job);
  return 0;
}
