/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels that use results of earlier requests. */
#include <stdint.h>

#include <veo_ve.h>

int64_t previous_status = 99;

uint64_t previous(int32_t offset) {
  uint64_t result = 0;
  previous_status = veo_prev_req_result(offset, &result);
  return result;
}

uint64_t returns(uint64_t value) { return value; }

/* Adds the results of the last two requests. */
uint64_t add_previous_two(void) {
  uint64_t last = 0;
  uint64_t before = 0;
  if (veo_prev_req_result(0, &last) != 0) return ~0UL;
  if (veo_prev_req_result(1, &before) != 0) return ~0UL;
  return last + before;
}
