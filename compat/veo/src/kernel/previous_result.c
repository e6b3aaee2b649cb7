/* libaveoVE: veo_prev_req_result. The program that runs the kernel keeps the results, and exports
 * farcall_veo_previous_result; a kernel in any other program has none. */
#include <veo_ve.h>

#include <dlfcn.h>
#include <stddef.h>

typedef int previous_result(int offs, uint64_t* value);

int veo_prev_req_result(int offs, uint64_t* result) {
  /* Looked up when first needed: a weak reference of a library may be bound before the program has
   * loaded what defines it. Threads that race here find the same. */
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
