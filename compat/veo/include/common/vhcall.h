/* SPDX-License-Identifier: Apache-2.0 */

/* Definitions that programs and kernels share for VHcall, the calls of host functions by kernels.
 * Programs include libvhcall.h, which includes this file. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_H
#define FARCALL_COMPAT_VEO_VHCALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handle of a loaded library of host functions. */
typedef uint64_t vhcall_handle;

/* Length of the longest name of a host function. */
#define VHCALL_SYMNAME_MAX 1023

/* Numbers of integer and floating-point arguments that x86-64 passes in registers. All further
 * arguments are passed on the stack. */
#define VHCALL_MAX_INTREG 6
#define VHCALL_MAX_SSEREG 8

/* Class of an argument: an integer, a float or double, a complex number, a pointer to memory, or
 * the veos_handle* of the kernel's process. */
enum vhcall_args_class {
  VHCALL_CLASS_INT = 1,
  VHCALL_CLASS_DBL,
  VHCALL_CLASS_CDB,
  VHCALL_CLASS_PTR,
  VHCALL_CLASS_HDL
};

/* Direction in which the memory behind a pointer argument is copied: to the host function, in both
 * directions, or back to the kernel. */
enum vhcall_args_intent { VHCALL_INTENT_IN = 1, VHCALL_INTENT_INOUT, VHCALL_INTENT_OUT };

/* One argument of a host function. For VHCALL_CLASS_PTR, val[0] is an address, and size is the
 * number of bytes at that address. For a number, val holds the bytes of the number, and size is
 * the number of these bytes: 4 for a float, 8 for a double or a complex float, 16 for a complex
 * double. */
typedef struct vhcall_data {
  enum vhcall_args_class cl;
  enum vhcall_args_intent inout;
  uint64_t val[2];
  size_t size;
} vhcall_data;

#ifdef __cplusplus
}
#endif

#endif
