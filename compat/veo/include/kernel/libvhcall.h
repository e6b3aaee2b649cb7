/* VHcall, for kernels: call functions of a host library. Which process is the host is not said
 * here: by default it is the one that runs the kernel. Nothing to link; -lsysve is there already.
 *
 * Calls return when the host function has. They may come from several threads; one object of
 * arguments is for one thread at a time. Errors are -1 (or NULL) with errno. */
#ifndef FARCALL_COMPAT_VEO_LIBVHCALL_H
#define FARCALL_COMPAT_VEO_LIBVHCALL_H

#include <vhcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a library of host functions, as dlopen finds it. (vhcall_handle)-1: EFAULT without a path,
 * ENAMETOOLONG, ENOENT or another error of opening the file, ENOEXEC when it cannot be loaded. */
vhcall_handle vhcall_install(const char* path);

/* A function of it, for the calls below. -1: EINVAL when there is none of that name. */
int64_t vhcall_find(vhcall_handle library, const char* symbol);

/* Calls f(veos_handle*, const void* in, size_t in_size, void* out, size_t out_size) with copies of
 * both buffers, and copies `out` back. Returns what f returned; -4095 to -1 are errors there, too:
 * -1 with the number in errno. EFAULT when a buffer is not memory. */
long vhcall_invoke(int64_t symbol, const void* in, size_t in_size, void* out, size_t out_size);

/* Unloads it. 0, else -1. */
int vhcall_uninstall(vhcall_handle library);

#ifndef VHCALLNOENHANCE

/* Arguments for vhcall_invoke_with_args; what is in it is not for programs. */
typedef struct vhcall_args {
  int num;
  vhcall_data data;
  struct vhcall_args* next;
  int args_num;
} vhcall_args;

vhcall_args* vhcall_args_alloc(void);

/* The same, with `num` arguments that are 0 until they are set. */
vhcall_args* vhcall_args_alloc_num(int num);

/* Set argument `argnum`, which counts from 0; the last value wins. 0, else -1 with EINVAL or
 * ENOMEM. */
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

/* The function gets a pointer to a copy of `size` bytes at `memory`. Which way they are copied, and
 * when, is as `intent` says: at the call, at its return, or both. */
int vhcall_args_set_pointer(vhcall_args* args, enum vhcall_args_intent intent, int argnum,
                            void* memory, size_t size);

/* The function gets the veos_handle* that the functions of libvepseudo.h want. */
int vhcall_args_set_veoshandle(vhcall_args* args, int argnum);

/* Calls with these arguments a function that returns uint64_t; *result gets that. 0, else -1 with
 * EINVAL (an argument was left out), EFAULT or ENOMEM. */
int vhcall_invoke_with_args(int64_t symbol, vhcall_args* args, uint64_t* result);

void vhcall_args_clear(vhcall_args* args);
void vhcall_args_free(vhcall_args* args);

#endif

#ifdef __cplusplus
}
#endif

#endif
