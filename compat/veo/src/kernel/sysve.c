/* SPDX-License-Identifier: Apache-2.0 */
#include <libsysve.h>
#include <userdma.h>
#include <veshm.h>

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/* ---- functions that work without the card -------------------------------------------------------
 */

static int put_text(char* buffer, size_t size, const char* text) {
  const size_t length = strlen(text);
  if (buffer == NULL) {
    errno = EFAULT;
    return -1;
  }
  if (length >= size) {
    errno = ERANGE;
    return -1;
  }
  memcpy(buffer, text, length + 1);
  return (int)length;
}

int ve_get_numa_node(unsigned* node) {
  if (node == NULL) {
    errno = EFAULT;
    return -1;
  }
  return (int)syscall(SYS_getcpu, NULL, node, NULL);
}

ssize_t ve_get_ve_info(char* name, char* buffer, size_t size) {
  long long value = 0;
  if (name == NULL) {
    errno = EFAULT;
    return -1;
  }
  if (strcmp(name, "num_of_core") == 0) {
    value = sysconf(_SC_NPROCESSORS_ONLN);
  } else if (strcmp(name, "memory_size") == 0) {
    const long long gib = 1LL << 30;
    value = (sysconf(_SC_PHYS_PAGES) * (long long)sysconf(_SC_PAGESIZE) + gib - 1) / gib;
  } else {
    errno = ENOENT;
    return -1;
  }
  char text[32];
  snprintf(text, sizeof text, "%lld", value);
  return put_text(buffer, size, text);
}

int ve_get_ve_product_name(char* buffer, size_t size) {
  char line[256];
  char* name = NULL;
  FILE* file = fopen("/proc/cpuinfo", "re");
  while (file != NULL && name == NULL && fgets(line, sizeof line, file) != NULL) {
    /* The loop finds no name if /proc/cpuinfo has no "model name", as on some processors. */
    if (strncmp(line, "model name", 10) == 0) name = strchr(line, ':');
  }
  if (file != NULL) fclose(file);
  if (name == NULL) return put_text(buffer, size, "unknown") < 0 ? -1 : 0;
  name += 1 + strspn(name + 1, " \t");
  name[strcspn(name, "\n")] = 0;
  return put_text(buffer, size, name) < 0 ? -1 : 0;
}

int ve_is_acc_io_enabled(void) { return 0; }

/* ---- functions that need the card ---------------------------------------------------------------
 */

static int refuse(void) {
  errno = ENOTSUP;
  return -1;
}

int ve_get_pci_sync(uint8_t syncnum, uint64_t* pcisyar, uint64_t* pcisymr) {
  (void)syncnum;
  (void)pcisyar;
  (void)pcisymr;
  return refuse();
}

int ve_set_user_reg(uint64_t reg, uint64_t value) {
  (void)reg;
  (void)value;
  return refuse();
}

int ve_get_fixed_vehva(uint64_t region, uint64_t* vehva) {
  (void)region;
  (void)vehva;
  return refuse();
}

int ve_get_veos_pid(void) { return refuse(); }

int ve_get_nonswappable(uint64_t* bytes) {
  (void)bytes;
  return refuse();
}

int ve_get_vemva_region(uint64_t* address, size_t* size, int64_t* count) {
  (void)address;
  (void)size;
  (void)count;
  return refuse();
}

int ve_shared_mem_open(void* memory, size_t size, int syncnum, long long mode) {
  (void)memory;
  (void)size;
  (void)syncnum;
  (void)mode;
  return refuse();
}

int ve_shared_mem_close(void* memory, size_t size, int syncnum, long long mode) {
  return ve_shared_mem_open(memory, size, syncnum, mode);
}

void* ve_shared_mem_attach(pid_t pid, void* memory, size_t size, int syncnum, long long mode) {
  (void)pid;
  ve_shared_mem_open(memory, size, syncnum, mode);
  return (void*)-1;
}

int ve_shared_mem_detach(void* address, long long mode) {
  (void)address;
  (void)mode;
  return refuse();
}

int ve_get_pgmode(long long mode, int pid, void* address) {
  (void)pid;
  return ve_shared_mem_detach(address, mode);
}

int ve_map_dmades(uint64_t* descriptors, uint64_t* control) {
  (void)descriptors;
  (void)control;
  return refuse();
}

int ve_unmap_dmades(uint64_t address) {
  (void)address;
  return refuse();
}
