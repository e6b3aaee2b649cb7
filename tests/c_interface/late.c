// SPDX-License-Identifier: Apache-2.0

// Tests handlers of a library that is loaded while the job runs, first on the host and then on the
// target. Usage: program <path of the library>
#include "check.h"

#include <dlfcn.h>

static void load(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)size, (void)user;
  if (dlopen(bytes, RTLD_NOW | RTLD_LOCAL) == NULL) fc_reply_error(reply, "dlopen", dlerror());
}

int main(int argc, char** argv) {
  NEED(fc_register("load", &load, NULL) == FC_OK);
  fc_job* job = NULL;
  NEED(fc_job_start(&argc, argv, NULL, &job) == FC_OK);
  NEED(argc == 2);
  fc_node target;
  fc_node host;
  NEED(fc_node_at(job, 1, &target) == FC_OK && fc_node_at(job, 0, &host) == FC_OK);

  const double value = 21;
  double got = 0;
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'twice'",
              fc_call(host, fc_named("twice"), &value, sizeof value, &got, sizeof got, NULL));
  NEED(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) != NULL);
  CHECK(fc_call(host, fc_named("twice"), &value, sizeof value, &got, sizeof got, NULL) == FC_OK);
  CHECK(got == 42);

  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'twice'",
              fc_call(target, fc_named("twice"), &value, sizeof value, &got, sizeof got, NULL));
  NEED(fc_call(target, fc_named("load"), argv[1], strlen(argv[1]) + 1, NULL, 0, NULL) == FC_OK);
  got = 0;
  CHECK(fc_call(target, fc_named("twice"), &value, sizeof value, &got, sizeof got, NULL) == FC_OK);
  CHECK(got == 42);
  // The target's handler calls back into the library on the host.
  got = 0;
  CHECK(fc_call(target, fc_named("twice at the host"), &value, sizeof value, &got, sizeof got,
                NULL) == FC_OK);
  CHECK(got == 42);
  fc_job_end(job);
  return failures != 0;
}
