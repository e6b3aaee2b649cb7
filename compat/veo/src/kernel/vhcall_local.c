/* SPDX-License-Identifier: Apache-2.0 */

/* VHcall for the case that the kernel's own process is the host. Host functions still get copies of
 * the kernel's memory, so that a function that works in this process works with any other host,
 * too. */
#include <errno.h>
#include <stdlib.h>

#include "memory_copy.h"
#include "vhcall_call.h"
#include "vhcall_host.h"
#include "vhcall_library.h"

/* A process has only one handle object, which needs no data. */
struct veos_handle_struct {
  char unused;
};

static veos_handle this_process;

static int read_memory(void* context, void* to, uint64_t from, size_t size) {
  (void)context;
  return farcall_veo_memory_copy((uintptr_t)to, from, size);
}

static int write_memory(void* context, uint64_t to, const void* from, size_t size) {
  (void)context;
  return farcall_veo_memory_copy(to, (uintptr_t)from, size);
}

static const struct vhcall_memory own_memory = {NULL, read_memory, write_memory};

static int64_t invoke(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size) {
  return vhcall_call((uint64_t)symbol, &this_process, &own_memory, (uintptr_t)in, in_size,
                     (uintptr_t)out, out_size);
}

static int invoke_with_args(int64_t symbol, const vhcall_data* args, size_t count,
                            uint64_t* result) {
  return vhcall_call_with_args((uint64_t)symbol, &this_process, &own_memory, args, count, result);
}

const struct vhcall_host farcall_vhcall_local_host = {vhcall_library_install, vhcall_library_find,
                                                      invoke, invoke_with_args,
                                                      vhcall_library_uninstall};

static int fail(int error) {
  if (error == 0) {
    return 0;
  }
  errno = -error;
  return -1;
}

int ve_send_data(veos_handle* handle, uint64_t address, size_t size, void* from) {
  return handle == NULL ? fail(-EINVAL)
                        : fail(farcall_veo_memory_copy(address, (uintptr_t)from, size));
}

int ve_recv_data(veos_handle* handle, uint64_t address, size_t size, void* to) {
  return handle == NULL ? fail(-EINVAL)
                        : fail(farcall_veo_memory_copy((uintptr_t)to, address, size));
}

int ve_send_data_tid(veos_handle* handle, uint64_t address, size_t size, void* from, pid_t tid) {
  (void)tid;
  return ve_send_data(handle, address, size, from);
}

int ve_recv_data_tid(veos_handle* handle, uint64_t address, size_t size, void* to, pid_t tid) {
  (void)tid;
  return ve_recv_data(handle, address, size, to);
}

veos_handle* veos_handle_copy(veos_handle* handle) {
  veos_handle* copy = handle == NULL ? NULL : malloc(sizeof *copy);
  if (copy != NULL) {
    *copy = *handle;
  }
  return copy;
}

void veos_handle_free(veos_handle* handle) {
  /* Host functions do not own the handle that they get as an argument, so this function does not
   * free it. */
  if (handle != &this_process) {
    free(handle);
  }
}

int64_t ve_vhva_to_vehva(veos_handle* handle, const void* address) {
  return handle == NULL || address == NULL ? fail(-EINVAL) : (int64_t)(intptr_t)address;
}
