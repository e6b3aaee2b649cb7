/* VHcall: what both sides of it know. Programs include libvhcall.h, which includes this. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_H
#define FARCALL_COMPAT_VEO_VHCALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A library of host functions that has been loaded. */
typedef uint64_t vhcall_handle;

/* The longest name of a host function. */
#define VHCALL_SYMNAME_MAX 1023

/* How many arguments travel in registers on x86-64; further ones go to the stack. */
#define VHCALL_MAX_INTREG 6
#define VHCALL_MAX_SSEREG 8

/* What an argument is: an integer, a float or double, a complex double, memory, the handle. */
enum vhcall_args_class {
  VHCALL_CLASS_INT = 1,
  VHCALL_CLASS_DBL,
  VHCALL_CLASS_CDB,
  VHCALL_CLASS_PTR,
  VHCALL_CLASS_HDL
};

/* Which way the memory behind a pointer is copied: to the host function, both ways, or back. */
enum vhcall_args_intent { VHCALL_INTENT_IN = 1, VHCALL_INTENT_INOUT, VHCALL_INTENT_OUT };

/* One argument. Of VHCALL_CLASS_PTR, val[0] is an address and size counts bytes there. Of numbers,
 * val holds the bytes, and size says how many: 4 for a float, 8 for a double or a complex float, 16
 * for a complex double. */
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
