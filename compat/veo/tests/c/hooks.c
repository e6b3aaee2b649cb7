/* SPDX-License-Identifier: Apache-2.0 */

/* Hooks from a program that is linked at fixed addresses, like old programs. Addresses of library
   functions are then in the program (PLT), and the library must accept them as keys. */
#include <ve_offload.h>

#include <stdarg.h>
#include <stdio.h>

#include "check.h"

static struct veo_proc_handle* seen_proc;
static uint64_t seen_address;
static size_t seen_size;

static void on_alloc(void* payload, ...) {
  va_list rest;
  va_start(rest, payload);
  seen_proc = va_arg(rest, struct veo_proc_handle*);
  seen_address = *va_arg(rest, uint64_t*);
  seen_size = va_arg(rest, size_t);
  va_end(rest);
}

int main(void) {
  struct veo_proc_handle* const proc = veo_proc_create(0);
  NEED(proc != NULL);
  /* Cast by way of an integer, because of -Wpedantic. */
  void* const function = (void*)(uintptr_t)&veo_alloc_mem;
  veo_register_hook(function, &on_alloc, NULL);
  uint64_t address = 0;
  CHECK(veo_alloc_mem(proc, &address, 100) == 0);
  CHECK(seen_proc == proc);
  CHECK(seen_address == address);
  CHECK(seen_size == 100);
  veo_unregister_hook(function);
  seen_size = 0;
  CHECK(veo_alloc_mem(proc, &address, 100) == 0);
  CHECK(seen_size == 0);
  CHECK(veo_proc_destroy(proc) == 0);
  return failures != 0;
}
