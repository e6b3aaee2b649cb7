/* SPDX-License-Identifier: Apache-2.0 */
#include <vhshm.h>

#include <errno.h>

int vh_shmget(key_t key, size_t size, int flags) {
  if ((flags & ~SHM_HUGETLB) != 0) {
    errno = EINVAL;
    return -1;
  }
  /* SHM_HUGETLB is ignored, because it only matters when a segment is created, and this function
   * only finds existing segments. */
  return shmget(key, size, 0);
}

void* vh_shmat(int id, const void* address, int flags, void** vehva) {
  if (address != NULL || (flags & ~SHM_RDONLY) != 0) {
    errno = EINVAL;
    return (void*)-1;
  }
  if (vehva == NULL) {
    errno = EFAULT;
    return (void*)-1;
  }
  void* memory = shmat(id, NULL, flags);
  if (memory != (void*)-1) {
    *vehva = memory;
  }
  return memory;
}

int vh_shmdt(const void* address) { return shmdt(address); }
