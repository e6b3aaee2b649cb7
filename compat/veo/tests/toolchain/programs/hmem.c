/* SPDX-License-Identifier: Apache-2.0 */

/* Tests veo_hmem.h in a program linked with -lveohmem. */
#include <veo_hmem.h>

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

/* Sets bit 63, and the identifier in bits 62 to 59. */
static void* tagged(uint64_t identifier, uint64_t address) {
  return (void*)(UINT64_C(0x8000000000000000) + identifier * UINT64_C(0x0800000000000000) +
                 address);
}

int main(void) {
  const uint64_t address = UINT64_C(0x600012345678);

  CHECK(veo_get_max_proc_identifier() == 16);
  CHECK(veo_is_ve_addr((void*)address) == 0);
  CHECK(veo_get_hmem_addr((void*)address) == (void*)address);
  CHECK(veo_get_proc_identifier_from_hmem((void*)address) == -1);
  for (uint64_t identifier = 0; identifier < 16; ++identifier) {
    CHECK(veo_is_ve_addr(tagged(identifier, address)) == 1);
    CHECK(veo_get_hmem_addr(tagged(identifier, address)) == (void*)address);
    CHECK(veo_get_proc_identifier_from_hmem(tagged(identifier, address)) == (int)identifier);
  }

  errno = 0;
  CHECK(syscall_wrapper(SYS_getpid, 0, 0, 0, 0, 0, 0) == getpid());
  CHECK(syscall_wrapper(SYS_close, -1, 0, 0, 0, 0, 0) == -EBADF);
  CHECK(errno == 0);
  return failures();
}
