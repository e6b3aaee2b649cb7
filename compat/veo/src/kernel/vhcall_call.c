/* SPDX-License-Identifier: Apache-2.0 */
#include "vhcall_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vhcall_thunk.h"

typedef int64_t buffer_function(veos_handle* handle, const void* in, size_t in_size, void* out,
                                size_t out_size);

int64_t vhcall_call(uint64_t function, veos_handle* handle, const struct vhcall_memory* memory,
                    uint64_t in, size_t in_size, uint64_t out, size_t out_size) {
  /* Allocate zeroed memory: bytes that the function does not write are copied to the kernel and
   * must not reveal memory of this process. */
  void* in_copy = in_size == 0 ? NULL : malloc(in_size);
  void* out_copy = out_size == 0 ? NULL : calloc(1, out_size);
  int64_t result = 0;
  if ((in_size != 0 && in_copy == NULL) || (out_size != 0 && out_copy == NULL)) {
    result = -ENOMEM;
  }
  if (result == 0 && in_size != 0) {
    result = memory->read(memory->context, in_copy, in, in_size);
  }
  if (result == 0) {
    result = ((buffer_function*)(uintptr_t)function)(handle, in_copy, in_size, out_copy, out_size);
    if (out_size != 0) {
      const int error = memory->write(memory->context, out, out_copy, out_size);
      result = error != 0 ? error : result;
    }
  }
  free(in_copy);
  free(out_copy);
  return result;
}

#ifdef VHCALL_INTEGER_REGISTERS

/* State while the frame of a call is built. `words` has space for two words of each argument. */
struct builder {
  struct vhcall_frame frame;
  unsigned integers;
  unsigned floats;
  uint64_t* words;
};

static void put_on_stack(struct builder* builder, uint64_t word) {
  builder->words[builder->frame.stack_words++] = word;
}

static void put_integer(struct builder* builder, uint64_t value) {
  if (builder->integers < VHCALL_INTEGER_REGISTERS) {
    builder->frame.integers[builder->integers++] = value;
  } else {
    put_on_stack(builder, value);
  }
}

static void put_float(struct builder* builder, uint64_t value) {
  if (builder->floats < VHCALL_FLOAT_REGISTERS) {
    builder->frame.floats[builder->floats++] = value;
  } else {
    put_on_stack(builder, value);
  }
}

/* Puts a pair of values into two registers, or onto the stack if fewer than two registers are left.
 */
static void put_pair(struct builder* builder, const uint64_t* parts, const uint64_t* on_stack,
                     unsigned stack_words) {
  if (builder->floats + 2 <= VHCALL_FLOAT_REGISTERS) {
    builder->frame.floats[builder->floats++] = parts[0];
    builder->frame.floats[builder->floats++] = parts[1];
    return;
  }
#ifdef __aarch64__
  /* On aarch64, once one argument is passed on the stack, all later arguments of the same class are
   * also passed on the stack. */
  builder->floats = VHCALL_FLOAT_REGISTERS;
#endif
  for (unsigned i = 0; i < stack_words; ++i) {
    put_on_stack(builder, on_stack[i]);
  }
}

/* Puts a complex float, which has eight bytes. x86-64 passes these bytes like one double, aarch64
 * as two floats. */
static void put_complex_float(struct builder* builder, uint64_t both) {
#ifdef __aarch64__
  const uint64_t parts[2] = {both & UINT32_MAX, both >> 32};
  put_pair(builder, parts, &both, 1);
#else
  put_float(builder, both);
#endif
}

static int put(struct builder* builder, const vhcall_data* argument, veos_handle* handle,
               void* copy) {
  switch (argument->cl) {
  case VHCALL_CLASS_INT:
    put_integer(builder, argument->val[0]);
    return 0;
  case VHCALL_CLASS_PTR:
    put_integer(builder, (uintptr_t)copy);
    return 0;
  case VHCALL_CLASS_HDL:
    put_integer(builder, (uintptr_t)handle);
    return 0;
  case VHCALL_CLASS_DBL:
    put_float(builder, argument->val[0]);
    return 0;
  case VHCALL_CLASS_CDB:
    if (argument->size == sizeof(uint64_t)) {
      put_complex_float(builder, argument->val[0]);
    } else {
      put_pair(builder, argument->val, argument->val, 2);
    }
    return 0;
  }
  return -EINVAL;
}

/* Copies the memory to which a pointer argument points. Leaves *copy NULL for other kinds of
 * arguments. */
static int copy_in(const vhcall_data* argument, const struct vhcall_memory* memory, void** copy) {
  if (argument->cl != VHCALL_CLASS_PTR || argument->size == 0) {
    return 0;
  }
  *copy = calloc(1, argument->size);
  if (*copy == NULL) {
    return -ENOMEM;
  }
  if (argument->inout == VHCALL_INTENT_OUT) {
    return 0;
  }
  return memory->read(memory->context, *copy, argument->val[0], argument->size);
}

static int copy_out(const vhcall_data* argument, const struct vhcall_memory* memory,
                    const void* copy) {
  if (copy == NULL || argument->inout == VHCALL_INTENT_IN) {
    return 0;
  }
  return memory->write(memory->context, argument->val[0], copy, argument->size);
}

int vhcall_call_with_args(uint64_t function, veos_handle* handle,
                          const struct vhcall_memory* memory, const vhcall_data* args, size_t count,
                          uint64_t* result) {
  struct builder builder;
  memset(&builder, 0, sizeof builder);
  builder.words = calloc(2 * count + 1, sizeof *builder.words);
  void** copies = calloc(count + 1, sizeof *copies);
  int error = builder.words == NULL || copies == NULL ? -ENOMEM : 0;
  for (size_t i = 0; i < count && error == 0; ++i) {
    error = copy_in(&args[i], memory, &copies[i]);
    if (error == 0) {
      error = put(&builder, &args[i], handle, copies[i]);
    }
  }
  if (error == 0) {
    builder.frame.stack = builder.words;
    *result = vhcall_thunk((void*)(uintptr_t)function, &builder.frame);
  }
  for (size_t i = 0; i < count && error == 0; ++i) {
    error = copy_out(&args[i], memory, copies[i]);
  }
  for (size_t i = 0; i < count && copies != NULL; ++i) {
    free(copies[i]);
  }
  free(copies);
  free(builder.words);
  return error;
}

#else

int vhcall_call_with_args(uint64_t function, veos_handle* handle,
                          const struct vhcall_memory* memory, const vhcall_data* args, size_t count,
                          uint64_t* result) {
  (void)function;
  (void)handle;
  (void)memory;
  (void)args;
  (void)count;
  (void)result;
  return -ENOSYS;
}

#endif
