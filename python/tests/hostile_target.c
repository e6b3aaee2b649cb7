// SPDX-License-Identifier: Apache-2.0

// Program of targets for hostile_test.py: its handlers reply to a host with any bytes.

#include <farcall/farcall.h>

#include <string.h>

enum { before_bytes = 29 }; // of a call with one argument of bytes: prefix, header, tag and size

static char stored[4096];
static size_t stored_size;

static void run(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  if (size >= before_bytes)
    fc_reply_bytes(reply, (const char*)bytes + before_bytes, size - before_bytes);
}

static void define(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply;
  (void)bytes;
  (void)size;
  (void)user;
}

static void store(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply;
  (void)user;
  stored_size = size <= sizeof stored ? size : 0;
  memcpy(stored, bytes, stored_size);
}

static void give_stored(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes;
  (void)size;
  (void)user;
  fc_reply_bytes(reply, stored, stored_size);
}

static void fail(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes;
  (void)size;
  (void)user;
  fc_reply_error(reply, "Error\xff", "no text\xfe");
}

int main(int argc, char** argv) {
  fc_register("farcall.python.run", &run, NULL);
  fc_register("farcall.python.define", &define, NULL);
  fc_register("farcall.python.allocate", &give_stored, NULL);
  fc_register("test.store", &store, NULL);
  fc_register("test.fail", &fail, NULL);
  fc_job_options options = {.size = sizeof options};
  fc_job* job = NULL;
  fc_job_start(&argc, argv, &options, &job);
  return 1; // a target does not come here
}
