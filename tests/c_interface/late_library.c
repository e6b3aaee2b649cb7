// SPDX-License-Identifier: Apache-2.0

// A library for late.c, which registers its handlers when it is loaded.
#include <farcall/farcall.h>

#include <stdlib.h>
#include <string.h>

static void twice(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  double value = 0;
  if (size == sizeof value) memcpy(&value, bytes, size);
  value *= 2;
  fc_reply_bytes(reply, &value, sizeof value);
}

static void twice_at_the_host(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_node host;
  double value = 0;
  // Functions that late.c does not use: the program must export them all the same.
  fc_future* future = NULL;
  size_t index = 1;
  const void* result = NULL;
  if (fc_node_at(NULL, 0, &host) != FC_OK || fc_node_remove(host) == FC_OK ||
      fc_call_async(host, fc_named("twice"), bytes, size, &future) != FC_OK ||
      fc_wait_any(&future, 1, -1, &index) != FC_OK || index != 0 ||
      fc_future_get(future, &result, &size) != FC_OK || size != sizeof value) {
    fc_reply_error(reply, "call", fc_error_text());
  } else {
    memcpy(&value, result, size);
    fc_reply_bytes(reply, &value, sizeof value);
  }
  fc_future_drop(future);
}

__attribute__((constructor)) static void register_all(void) {
  if (fc_register("twice", &twice, NULL) != FC_OK ||
      fc_register("twice at the host", &twice_at_the_host, NULL) != FC_OK) {
    abort();
  }
}
