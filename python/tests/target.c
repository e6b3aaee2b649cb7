// SPDX-License-Identifier: Apache-2.0

// Program of targets for native_test.py: handlers, and functions that are called by their symbols.

#include <farcall/farcall.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void scale(fc_reply* reply, const void* bytes, size_t size, void* user) {
  double value = 0;
  if (size != sizeof value) {
    fc_reply_error(reply, "SizeError", "scale takes a double");
    return;
  }
  memcpy(&value, bytes, sizeof value);
  value *= *(const double*)user;
  fc_reply_bytes(reply, &value, sizeof value);
}

struct sample {
  int8_t sign;
  double size;
  int32_t count;
};

static void sample(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  struct sample s;
  if (size != sizeof s) {
    fc_reply_error(reply, "SizeError", "sample takes a struct sample");
    return;
  }
  memcpy(&s, bytes, sizeof s);
  s.size *= s.sign;
  s.sign = (int8_t)-s.sign;
  ++s.count;
  fc_reply_bytes(reply, &s, sizeof s);
}

static void echo(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_reply_bytes(reply, bytes, size);
}

static void fail(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  char text[100] = "";
  if (size < sizeof text) memcpy(text, bytes, size);
  fc_reply_error(reply, "LookupError", text);
}

static void die(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply;
  (void)bytes;
  (void)size;
  (void)user;
  _Exit(3);
}

__attribute__((visibility("default"))) int add(int a, int b) { return a + b; }

__attribute__((visibility("default"))) void double_all(double* values, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof *values; ++i)
    values[i] *= 2;
}

int main(void) {
  static double factor = 2;
  fc_register("scale", &scale, &factor);
  fc_register("sample", &sample, NULL);
  fc_register("echo", &echo, NULL);
  fc_register("fail", &fail, NULL);
  fc_register("die", &die, NULL);
  return fc_serve_if_target() == FC_OK ? 2 : 1;
}
