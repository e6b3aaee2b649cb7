/* SPDX-License-Identifier: Apache-2.0 */

/* VHcall for kernels: calls of functions in a library of the host. By default the process that runs
 * the kernel is also the host. Link no library, because -lsysve is linked already.
 *
 * A call blocks until the host function has returned. All functions are thread-safe, except that
 * one thread at a time may use an argument object. Functions that fail return -1 or NULL and set
 * errno. */
#ifndef FARCALL_COMPAT_VEO_LIBVHCALL_H
#define FARCALL_COMPAT_VEO_LIBVHCALL_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a library of host functions, which is searched like dlopen() does. Returns
 * (vhcall_handle)-1 if it fails. errno is EFAULT if `path` is NULL, ENOEXEC if the file cannot be
 * loaded, otherwise ENAMETOOLONG, ENOENT or another error of opening the file. */
vhcall_handle vhcall_install(const char* path);

/* Returns a number that stands for a function of the library. vhcall_invoke() and
 * vhcall_invoke_with_args() take this number as `symbol`. Fails with EINVAL if the library has no
 * function of that name. */
int64_t vhcall_find(vhcall_handle library, const char* symbol);

/* Calls the host function as f(veos_handle*, const void* in, size_t in_size, void* out, size_t
 * out_size). The host function gets a copy of each buffer. After the call, its copy of `out` is
 * copied back. Returns the result of f. If the result is from -4095 to -1, it is an error, so that
 * vhcall_invoke() returns -1 and sets errno. Fails with EFAULT if a buffer is invalid. */
long vhcall_invoke(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size);

/* Unloads a library of host functions. Returns 0, or -1 if it fails. */
int vhcall_uninstall(vhcall_handle library);

#ifndef VHCALLNOENHANCE

/* Argument object for vhcall_invoke_with_args(). Programs must not use the members. */
typedef struct vhcall_args {
  int num;
  vhcall_data data;
  struct vhcall_args* next;
  int args_num;
} vhcall_args;

vhcall_args* vhcall_args_alloc(void);

/* Allocates an argument object with `num` arguments, which are 0 until they are set. */
vhcall_args* vhcall_args_alloc_num(int num);

/* Set the argument with the number `argnum`; the first argument has number 0. A later value
 * replaces an earlier one. These functions return 0, or -1 with EINVAL or ENOMEM. */
int vhcall_args_set_i8(vhcall_args* args, int argnum, int8_t value);
int vhcall_args_set_u8(vhcall_args* args, int argnum, uint8_t value);
int vhcall_args_set_i16(vhcall_args* args, int argnum, int16_t value);
int vhcall_args_set_u16(vhcall_args* args, int argnum, uint16_t value);
int vhcall_args_set_i32(vhcall_args* args, int argnum, int32_t value);
int vhcall_args_set_u32(vhcall_args* args, int argnum, uint32_t value);
int vhcall_args_set_i64(vhcall_args* args, int argnum, int64_t value);
int vhcall_args_set_u64(vhcall_args* args, int argnum, uint64_t value);
int vhcall_args_set_float(vhcall_args* args, int argnum, float value);
int vhcall_args_set_double(vhcall_args* args, int argnum, double value);
__extension__ int vhcall_args_set_complex_float(vhcall_args* args, int argnum,
                                                _Complex float value);
__extension__ int vhcall_args_set_complex_double(vhcall_args* args, int argnum,
                                                 _Complex double value);

/* Sets an argument that points to a copy of `size` bytes at `memory`. According to `intent`, the
 * bytes are copied to the host function at the call, copied back when it returns, or both. */
int vhcall_args_set_pointer(vhcall_args* args, enum vhcall_args_intent intent, int argnum,
                            void* memory, size_t size);

/* Sets an argument to the veos_handle* that the functions of libvepseudo.h take. */
int vhcall_args_set_veoshandle(vhcall_args* args, int argnum);

/* Calls a host function that returns uint64_t, and stores its result in *result. Returns 0, or -1
 * with EINVAL (an argument is not set), EFAULT or ENOMEM. */
int vhcall_invoke_with_args(int64_t symbol, vhcall_args* args, uint64_t* result);

void vhcall_args_clear(vhcall_args* args);
void vhcall_args_free(vhcall_args* args);

#endif

#ifdef __cplusplus
}
#endif

#endif
