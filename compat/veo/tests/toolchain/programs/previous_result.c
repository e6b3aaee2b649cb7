/* SPDX-License-Identifier: Apache-2.0 */

/* Tests veo_prev_req_result(): -1 in a program that keeps no results; with -DKEEPS, the kept
 * result. */
#include <veo_ve.h>

#include <stddef.h>

#include "check.h"

#ifdef KEEPS
int farcall_veo_previous_result(int offs, uint64_t* value) {
  if (offs > 1) {
    return -1;
  }
  *value = (uint64_t)(70 + offs);
  return 0;
}
#endif

int main(void) {
  uint64_t value = 5;
#ifdef KEEPS
  CHECK(veo_prev_req_result(0, &value) == 0 && value == 70);
  CHECK(veo_prev_req_result(1, &value) == 0 && value == 71);
  CHECK(veo_prev_req_result(2, &value) == -1);
  CHECK(veo_prev_req_result(-1, &value) == -1);
  CHECK(veo_prev_req_result(0, NULL) == -1);
#else
  CHECK(veo_prev_req_result(0, &value) == -1 && value == 5);
#endif
  return failures();
}
