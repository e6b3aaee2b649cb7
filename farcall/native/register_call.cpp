// SPDX-License-Identifier: Apache-2.0
#include <farcall/native/register_call.hpp>

#include <exception>

#include <unwind.h>

namespace farcall::native {

// The assembly code below contains the offsets of these members as numbers.
static_assert(offsetof(register_image, integers) == 0);
static_assert(offsetof(register_image, floats) == 64);
static_assert(offsetof(register_image, stack) == 128);
static_assert(offsetof(register_image, stack_words) == 136);
static_assert(offsetof(register_image, floats_used) == 144);
static_assert(offsetof(register_image, code) == 152);
static_assert(offsetof(register_image, stack_top) == 160);
static_assert(offsetof(register_image, integer_result) == 168);
static_assert(offsetof(register_image, float_result) == 176);
static_assert(offsetof(register_image, frame) == 184);

namespace {

// Number, in debug information, of the register in which the assembly code keeps the image.
#if defined(__x86_64__)
constexpr int image_register = 3; // rbx
#elif defined(__aarch64__)
constexpr int image_register = 19; // x19
#else
constexpr int image_register = 9; // s1
#endif

} // namespace

/// Personality routine of farcall_native_invoke. If the image says so, an exception passes through
/// the frame. Otherwise the routine stops the unwinding before it leaves the function, because the
/// frames of the function's callers may be on another stack. The function's frames must remain,
/// because the fault handler needs them, but some compilers unwind them before they call
/// std::terminate().
extern "C" [[gnu::used, gnu::visibility("hidden")]] _Unwind_Reason_Code
farcall_native_personality(int /*version*/, _Unwind_Action actions,
                           _Unwind_Exception_Class /*kind*/, _Unwind_Exception* /*exception*/,
                           _Unwind_Context* context) {
  const auto* const image =
      reinterpret_cast<const register_image*>(_Unwind_GetGR(context, image_register));
  if (image->passes_exceptions != 0) return _URC_CONTINUE_UNWIND;
  // Refuse in the search phase, so that the throw of an uncaught exception calls std::terminate()
  // while the stack is intact.
  if ((static_cast<unsigned>(actions) & static_cast<unsigned>(_UA_SEARCH_PHASE)) != 0) {
    return _URC_FATAL_PHASE1_ERROR;
  }
  std::terminate(); // reached only if the thread is cancelled or exits inside the function
}

} // namespace farcall::native

// The assembly versions save callee-saved registers on the caller's stack, at the frame pointer. A
// function that returns has restored these registers itself. After a fault, the code at
// farcall_native_landing restores them. Stack words are copied from the highest address down, so
// that a stack that is too small faults in its guard pages.

/// Calls the function of the image.
extern "C" [[gnu::visibility("hidden")]] void
farcall_native_invoke(farcall::native::register_image* image);

/// Landing of farcall_native_invoke.
extern "C" [[gnu::visibility("hidden")]] const char farcall_native_landing[];

#if defined(__x86_64__)

asm(R"(
  .pushsection .text
  .p2align 4
  .globl farcall_native_invoke
  .hidden farcall_native_invoke
  .type farcall_native_invoke, @function
  .globl farcall_native_landing
  .hidden farcall_native_landing
farcall_native_invoke:
  .cfi_startproc
  .cfi_personality 0x1b, farcall_native_personality
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rbx
  .cfi_offset %rbx, -24
  pushq %r12
  .cfi_offset %r12, -32
  pushq %r13
  .cfi_offset %r13, -40
  pushq %r14
  .cfi_offset %r14, -48
  pushq %r15
  .cfi_offset %r15, -56
  movq %rdi, %rbx
  movq %rbp, 184(%rbx)

  movq 160(%rbx), %rdx
  movq 136(%rbx), %rcx
  testq %rdx, %rdx
  cmoveq %rsp, %rdx
  leaq (,%rcx,8), %rax
  subq %rax, %rdx
  andq $-16, %rdx
  movq %rdx, %rsp
  testq %rcx, %rcx
  jz 2f
  movq 128(%rbx), %rsi
1:
  movq -8(%rsi,%rcx,8), %rax
  movq %rax, -8(%rdx,%rcx,8)
  decq %rcx
  jnz 1b
2:
  movq 144(%rbx), %rax
  testq %rax, %rax
  jz 3f
  movsd 64(%rbx), %xmm0
  movsd 72(%rbx), %xmm1
  movsd 80(%rbx), %xmm2
  movsd 88(%rbx), %xmm3
  movsd 96(%rbx), %xmm4
  movsd 104(%rbx), %xmm5
  movsd 112(%rbx), %xmm6
  movsd 120(%rbx), %xmm7
3:
  movq (%rbx), %rdi
  movq 8(%rbx), %rsi
  movq 16(%rbx), %rdx
  movq 24(%rbx), %rcx
  movq 32(%rbx), %r8
  movq 40(%rbx), %r9
  call *152(%rbx)
  movq %rax, 168(%rbx)
  movsd %xmm0, 176(%rbx)
4:
  leaq -40(%rbp), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  .cfi_remember_state
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_restore_state
farcall_native_landing:
  # The calling convention requires these states of the direction flag and the FPU.
  cld
  fnclex
  emms
  jmp 4b
  .cfi_endproc
  .size farcall_native_invoke, . - farcall_native_invoke
  .popsection
)");

#elif defined(__aarch64__)

asm(R"(
  .pushsection .text
  .p2align 4
  .globl farcall_native_invoke
  .hidden farcall_native_invoke
  .type farcall_native_invoke, %function
  .globl farcall_native_landing
  .hidden farcall_native_landing
farcall_native_invoke:
  .cfi_startproc
  .cfi_personality 0x1b, farcall_native_personality
  hint #34                          // bti c
  stp x29, x30, [sp, #-160]!
  .cfi_def_cfa_offset 160
  .cfi_offset x29, -160
  .cfi_offset x30, -152
  mov x29, sp
  .cfi_def_cfa_register x29
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  .cfi_offset x19, -144
  .cfi_offset x20, -136
  .cfi_offset x21, -128
  .cfi_offset x22, -120
  .cfi_offset x23, -112
  .cfi_offset x24, -104
  .cfi_offset x25, -96
  .cfi_offset x26, -88
  .cfi_offset x27, -80
  .cfi_offset x28, -72
  .cfi_offset d8, -64
  .cfi_offset d9, -56
  .cfi_offset d10, -48
  .cfi_offset d11, -40
  .cfi_offset d12, -32
  .cfi_offset d13, -24
  .cfi_offset d14, -16
  .cfi_offset d15, -8
  mov x19, x0
  str x29, [x19, #184]

  ldr x9, [x19, #160]
  cbnz x9, 1f
  mov x9, sp
1:
  ldr x10, [x19, #136]
  sub x9, x9, x10, lsl #3
  and x9, x9, #-16
  mov sp, x9
  cbz x10, 3f
  ldr x11, [x19, #128]
2:
  sub x10, x10, #1
  ldr x12, [x11, x10, lsl #3]
  str x12, [x9, x10, lsl #3]
  cbnz x10, 2b
3:
  ldr x10, [x19, #144]
  cbz x10, 4f
  ldp d0, d1, [x19, #64]
  ldp d2, d3, [x19, #80]
  ldp d4, d5, [x19, #96]
  ldp d6, d7, [x19, #112]
4:
  ldp x0, x1, [x19]
  ldp x2, x3, [x19, #16]
  ldp x4, x5, [x19, #32]
  ldp x6, x7, [x19, #48]
  ldr x16, [x19, #152]
  blr x16
  str x0, [x19, #168]
  str d0, [x19, #176]
farcall_native_landing:
  mov sp, x29
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  .cfi_def_cfa sp, 0
  ret
  .cfi_endproc
  .size farcall_native_invoke, . - farcall_native_invoke
  .popsection
)");

#elif defined(__riscv) && __riscv_xlen == 64 && defined(__riscv_float_abi_double)

// VEO, whose fault handler uses the landing, does not exist for this processor.
asm(R"(
  .pushsection .text
  .p2align 2
  .globl farcall_native_invoke
  .hidden farcall_native_invoke
  .type farcall_native_invoke, @function
farcall_native_invoke:
  .cfi_startproc
  .cfi_personality 0x1b, farcall_native_personality
  addi sp, sp, -32
  .cfi_def_cfa_offset 32
  sd ra, 24(sp)
  sd s0, 16(sp)
  sd s1, 8(sp)
  .cfi_offset ra, -8
  .cfi_offset s0, -16
  .cfi_offset s1, -24
  addi s0, sp, 32
  .cfi_def_cfa s0, 0
  mv s1, a0
  sd s0, 184(s1)

  ld t0, 160(s1)
  bnez t0, 1f
  mv t0, sp
1:
  ld t1, 136(s1)
  slli t2, t1, 3
  sub t0, t0, t2
  andi t0, t0, -16
  mv sp, t0
  beqz t1, 3f
  ld t3, 128(s1)
  add t3, t3, t2
  add t4, t0, t2
2:
  addi t3, t3, -8
  addi t4, t4, -8
  addi t1, t1, -1
  ld t5, 0(t3)
  sd t5, 0(t4)
  bnez t1, 2b
3:
  ld t1, 144(s1)
  beqz t1, 4f
  fld fa0, 64(s1)
  fld fa1, 72(s1)
  fld fa2, 80(s1)
  fld fa3, 88(s1)
  fld fa4, 96(s1)
  fld fa5, 104(s1)
  fld fa6, 112(s1)
  fld fa7, 120(s1)
4:
  ld a0, 0(s1)
  ld a1, 8(s1)
  ld a2, 16(s1)
  ld a3, 24(s1)
  ld a4, 32(s1)
  ld a5, 40(s1)
  ld a6, 48(s1)
  ld a7, 56(s1)
  ld t1, 152(s1)
  jalr t1
  sd a0, 168(s1)
  fsd fa0, 176(s1)
  addi sp, s0, -32
  .cfi_def_cfa sp, 32
  ld ra, 24(sp)
  ld s0, 16(sp)
  ld s1, 8(sp)
  addi sp, sp, 32
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size farcall_native_invoke, . - farcall_native_invoke
  .popsection
)");

#else

extern "C" void farcall_native_invoke(farcall::native::register_image* /*image*/) {
  std::terminate();
}

#endif

namespace farcall::native {

void invoke(register_image& image) { farcall_native_invoke(&image); }

const void* landing() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
  return farcall_native_landing;
#else
  return nullptr;
#endif
}

bool is_in_invoke(const void* code) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  return at >= reinterpret_cast<std::uintptr_t>(&farcall_native_invoke) &&
         at < reinterpret_cast<std::uintptr_t>(landing());
}

} // namespace farcall::native
