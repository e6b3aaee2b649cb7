/* A call whose arguments are known only at run time. */
#ifndef FARCALL_COMPAT_VEO_VHCALL_THUNK_H
#define FARCALL_COMPAT_VEO_VHCALL_THUNK_H

#include <stdint.h>

/* As many registers as the calling convention has for arguments. vhcall_thunk.S knows the offsets:
 * 64 for `floats`, 128 for `stack`, 136 for `stack_words`. */
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
