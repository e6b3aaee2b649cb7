/* SPDX-License-Identifier: Apache-2.0 */

/* Calls a function whose arguments are known only at run time. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_THUNK_H
#define FARCALL_COMPAT_VEO_VHCALL_THUNK_H

#include <stdint.h>

/* Registers and stack words of a call. The assembly code in vhcall_thunk.S depends on the offsets
 * of members: `floats` at 64, `stack` at 128, `stack_words` at 136. */
#define VHCALL_INTEGER_SPACE 8
#define VHCALL_FLOAT_SPACE 8
#if defined(__x86_64__)
#define VHCALL_INTEGER_REGISTERS 6
#elif defined(__aarch64__)
#define VHCALL_INTEGER_REGISTERS 8
#endif
#define VHCALL_FLOAT_REGISTERS 8

struct vhcall_frame {
  uint64_t integers[VHCALL_INTEGER_SPACE];
  uint64_t floats[VHCALL_FLOAT_SPACE];
  const uint64_t* stack;
  uint64_t stack_words;
};

__attribute__((visibility("hidden"))) uint64_t vhcall_thunk(void* function,
                                                            const struct vhcall_frame* frame);

#endif
