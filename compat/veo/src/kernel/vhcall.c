/* SPDX-License-Identifier: Apache-2.0 */

/* Implements libvhcall.h: checks arguments, manages argument objects, and calls functions of the
 * host. */
#include <libvhcall.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "vhcall_host.h"

/* Returns the functions of the VHcall host. The program can provide them; otherwise this process is
 * the host. The program is asked at each call, because its reply may change. */
static const struct vhcall_host* host(void) {
  static farcall_vhcall_host_function* found;
  static int looked;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
    /* Several threads may look up the function at once, because they store the same value. */
    farcall_vhcall_host_function* function =
        (farcall_vhcall_host_function*)(uintptr_t)dlsym(RTLD_DEFAULT, "farcall_vhcall_host");
    __atomic_store_n(&found, function, __ATOMIC_RELAXED);
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  farcall_vhcall_host_function* function = __atomic_load_n(&found, __ATOMIC_RELAXED);
  const struct vhcall_host* table = function == NULL ? NULL : function();
  return table == NULL ? &farcall_vhcall_local_host : table;
}

static int fail(int error) {
  errno = error;
  return -1;
}

/* Returns -1 and sets errno if `value` is from -4095 to -1, which are errors as in system calls.
 * Returns other values unchanged. */
static int64_t result_of(int64_t value) {
  return value < 0 && value >= -4095 ? fail((int)-value) : value;
}

static int is_library(vhcall_handle library) {
  return library != 0 && library != (vhcall_handle)-1;
}

vhcall_handle vhcall_install(const char* path) {
  if (path == NULL) {
    return (vhcall_handle)fail(EFAULT);
  }
  return (vhcall_handle)result_of(host()->install(path));
}

int64_t vhcall_find(vhcall_handle library, const char* symbol) {
  if (!is_library(library) || symbol == NULL ||
      strnlen(symbol, VHCALL_SYMNAME_MAX + 1) > VHCALL_SYMNAME_MAX) {
    return fail(EINVAL);
  }
  return result_of(host()->find(library, symbol));
}

long vhcall_invoke(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size) {
  if (symbol == 0 || symbol == -1) {
    return fail(EINVAL);
  }
  if ((in == NULL && in_size != 0) || (out == NULL && out_size != 0)) {
    return fail(EFAULT);
  }
  return (long)result_of(host()->invoke(symbol, in, in_size, out, out_size));
}

int vhcall_uninstall(vhcall_handle library) {
  return is_library(library) ? (int)result_of(host()->uninstall(library)) : fail(EINVAL);
}

/* An argument object is a linked list in the order of `num`. The head of the list holds no
 * argument, and its args_num is the number of arguments with which the object was allocated. */

static vhcall_args* new_node(int num, vhcall_args* next) {
  vhcall_args* node = calloc(1, sizeof *node);
  if (node != NULL) {
    node->num = num;
    node->next = next;
    node->data.cl = VHCALL_CLASS_INT;
    node->data.inout = VHCALL_INTENT_IN;
    node->data.size = sizeof(uint64_t);
  }
  return node;
}

static void free_nodes(vhcall_args* node) {
  while (node != NULL) {
    vhcall_args* next = node->next;
    free(node);
    node = next;
  }
}

vhcall_args* vhcall_args_alloc(void) { return vhcall_args_alloc_num(0); }

vhcall_args* vhcall_args_alloc_num(int num) {
  if (num < 0) {
    errno = EINVAL;
    return NULL;
  }
  vhcall_args* list = NULL;
  for (int i = num - 1; i >= 0; --i) {
    vhcall_args* node = new_node(i, list);
    if (node == NULL) {
      free_nodes(list);
      return NULL;
    }
    list = node;
  }
  vhcall_args* head = new_node(-1, list);
  if (head == NULL) {
    free_nodes(list);
    return NULL;
  }
  head->args_num = num;
  return head;
}

static int set(vhcall_args* args, int argnum, const vhcall_data* data) {
  if (args == NULL || argnum < 0) {
    return fail(EINVAL);
  }
  vhcall_args* before = args;
  while (before->next != NULL && before->next->num < argnum) {
    before = before->next;
  }
  if (before->next == NULL || before->next->num != argnum) {
    vhcall_args* node = new_node(argnum, before->next);
    if (node == NULL) {
      return fail(ENOMEM);
    }
    before->next = node;
  }
  before->next->data = *data;
  return 0;
}

/* Sets an argument that is a number of `size` bytes, at most 16. */
static int set_number(vhcall_args* args, int argnum, enum vhcall_args_class cl, const void* value,
                      size_t size) {
  vhcall_data data = {cl, VHCALL_INTENT_IN, {0, 0}, size};
  memcpy(data.val, value, size);
  return set(args, argnum, &data);
}

/* Sets an integer argument, which the caller has extended to 64 bits by sign or by zeros. */
static int set_integer(vhcall_args* args, int argnum, uint64_t value) {
  return set_number(args, argnum, VHCALL_CLASS_INT, &value, sizeof value);
}

int vhcall_args_set_i8(vhcall_args* args, int argnum, int8_t value) {
  return set_integer(args, argnum, (uint64_t)(int64_t)value);
}

int vhcall_args_set_u8(vhcall_args* args, int argnum, uint8_t value) {
  return set_integer(args, argnum, value);
}

int vhcall_args_set_i16(vhcall_args* args, int argnum, int16_t value) {
  return set_integer(args, argnum, (uint64_t)(int64_t)value);
}

int vhcall_args_set_u16(vhcall_args* args, int argnum, uint16_t value) {
  return set_integer(args, argnum, value);
}

int vhcall_args_set_i32(vhcall_args* args, int argnum, int32_t value) {
  return set_integer(args, argnum, (uint64_t)(int64_t)value);
}

int vhcall_args_set_u32(vhcall_args* args, int argnum, uint32_t value) {
  return set_integer(args, argnum, value);
}

int vhcall_args_set_i64(vhcall_args* args, int argnum, int64_t value) {
  return set_integer(args, argnum, (uint64_t)value);
}

int vhcall_args_set_u64(vhcall_args* args, int argnum, uint64_t value) {
  return set_integer(args, argnum, value);
}

int vhcall_args_set_float(vhcall_args* args, int argnum, float value) {
  return set_number(args, argnum, VHCALL_CLASS_DBL, &value, sizeof value);
}

int vhcall_args_set_double(vhcall_args* args, int argnum, double value) {
  return set_number(args, argnum, VHCALL_CLASS_DBL, &value, sizeof value);
}

int vhcall_args_set_complex_float(vhcall_args* args, int argnum, _Complex float value) {
  return set_number(args, argnum, VHCALL_CLASS_CDB, &value, sizeof value);
}

int vhcall_args_set_complex_double(vhcall_args* args, int argnum, _Complex double value) {
  return set_number(args, argnum, VHCALL_CLASS_CDB, &value, sizeof value);
}

int vhcall_args_set_pointer(vhcall_args* args, enum vhcall_args_intent intent, int argnum,
                            void* memory, size_t size) {
  if (intent < VHCALL_INTENT_IN || intent > VHCALL_INTENT_OUT || (memory == NULL && size != 0)) {
    return fail(EINVAL);
  }
  const vhcall_data data = {VHCALL_CLASS_PTR, intent, {(uintptr_t)memory, 0}, size};
  return set(args, argnum, &data);
}

int vhcall_args_set_veoshandle(vhcall_args* args, int argnum) {
  const vhcall_data data = {VHCALL_CLASS_HDL, VHCALL_INTENT_IN, {0, 0}, 0};
  return set(args, argnum, &data);
}

int vhcall_invoke_with_args(int64_t symbol, vhcall_args* args, uint64_t* result) {
  if (args == NULL || symbol == 0 || symbol == -1) {
    return fail(EINVAL);
  }
  int count = 0;
  for (const vhcall_args* node = args->next; node != NULL; node = node->next) {
    if (node->num != count) {
      return fail(EINVAL);
    }
    ++count;
  }
  vhcall_data* flat = calloc((size_t)count + 1, sizeof *flat);
  if (flat == NULL) {
    return fail(ENOMEM);
  }
  for (const vhcall_args* node = args->next; node != NULL; node = node->next) {
    flat[node->num] = node->data;
  }
  uint64_t ignored = 0;
  const int error =
      host()->invoke_with_args(symbol, flat, (size_t)count, result == NULL ? &ignored : result);
  free(flat);
  return error == 0 ? 0 : fail(-error);
}

/* Restores the state that the argument object had after its allocation. */
void vhcall_args_clear(vhcall_args* args) {
  if (args == NULL) {
    return;
  }
  const vhcall_data zero = {VHCALL_CLASS_INT, VHCALL_INTENT_IN, {0, 0}, sizeof(uint64_t)};
  vhcall_args* last = args;
  while (last->next != NULL && last->next->num < args->args_num) {
    last = last->next;
    last->data = zero;
  }
  free_nodes(last->next);
  last->next = NULL;
}

void vhcall_args_free(vhcall_args* args) { free_nodes(args); }
