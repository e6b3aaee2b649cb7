// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::tool {

/// Tells the core that this is a spin loop: it saves power and leaves the loop without a pipeline
/// flush.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#elif defined(__riscv)
  asm volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");
#endif
}

} // namespace farcall::tool
