/* SPDX-License-Identifier: Apache-2.0 */

/* This file is the library libaveoVE, which defines veo_prev_req_result(). The helper program
 * (aveorun) keeps the results of requests, and exports farcall_veo_previous_result to read them.
 * Other programs have no such results. */
#include <veo_ve.h>

#include <dlfcn.h>
#include <stddef.h>

typedef int previous_result(int offs, uint64_t* value);

int veo_prev_req_result(int offs, uint64_t* result) {
  /* Look up the function at first use instead of by a weak reference, which the loader could bind
   * before the definition is loaded. Several threads may look it up at once, because they store the
   * same value. */
  static previous_result* found;
  previous_result* function = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (function == NULL) {
    function = (previous_result*)(uintptr_t)dlsym(RTLD_DEFAULT, "farcall_veo_previous_result");
    if (function == NULL) {
      return -1;
    }
    __atomic_store_n(&found, function, __ATOMIC_RELAXED);
  }
  return result == NULL || offs < 0 ? -1 : function(offs, result);
}
