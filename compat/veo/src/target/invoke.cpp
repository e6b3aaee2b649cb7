#include "invoke.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <string>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

namespace farcall::veo {

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

/// Personality routine of farcall_veo_invoke. It stops the unwinding of an exception before the
/// unwinding leaves the kernel, because the frames of the kernel's callers are on another stack.
/// The kernel's frames must remain, because the fault handler needs them, but some compilers unwind
/// them before they call std::terminate().
extern "C" [[gnu::used, gnu::visibility("hidden")]] _Unwind_Reason_Code
farcall_veo_personality(int /*version*/, _Unwind_Action actions, _Unwind_Exception_Class /*kind*/,
                        _Unwind_Exception* /*exception*/, _Unwind_Context* /*context*/) {
  // Refuse in the search phase, so that the throw of an uncaught exception calls std::terminate()
  // while the stack is intact.
  if ((static_cast<unsigned>(actions) & static_cast<unsigned>(_UA_SEARCH_PHASE)) != 0) {
    return _URC_FATAL_PHASE1_ERROR;
  }
  std::terminate(); // this line is reached only if the thread is cancelled or exits inside a kernel
}

namespace {

// Size of the inaccessible memory below a kernel's stack. It is large, because kernels with large
// frames access addresses far beyond the end of the stack.
constexpr std::size_t guard_bytes = std::size_t{1} << 20;

/// Bytes above the top of a kernel's stack. They are readable memory for functions such as
/// syscall(), which read arguments that the caller has not passed.
constexpr std::size_t margin_bytes = 256;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Limit the size, so that the sum below cannot overflow. mmap() refuses sizes as large as this
  // limit, so that the caller still gets an error.
  bytes = std::min(bytes, std::numeric_limits<std::size_t>::max() / 2);
  return (bytes + margin_bytes + page - 1) / page * page;
}

} // namespace

kernel_stack::kernel_stack(std::size_t bytes) : mapped_(whole_pages(bytes) + guard_bytes) {
  void* memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(),
                            "mapping a stack of " + std::to_string(bytes) +
                                " bytes for kernels (ask for a smaller one, or raise 'ulimit -v')");
  }
  mapping_ = static_cast<std::byte*>(memory);
  if (::mprotect(memory, guard_bytes, PROT_NONE) != 0) {
    const int reason = errno;
    ::munmap(memory, mapped_);
    throw std::system_error(reason, std::generic_category(), "protecting the end of a stack");
  }
}

kernel_stack::~kernel_stack() { ::munmap(mapping_, mapped_); }

std::size_t kernel_stack::bytes() const noexcept { return mapped_ - guard_bytes - margin_bytes; }

void* kernel_stack::top() const noexcept { return mapping_ + mapped_ - margin_bytes; }

} // namespace farcall::veo

// The assembly versions for both processors save the callee-saved registers on the caller's stack,
// at the frame pointer. A kernel that returns has restored these registers itself. After a fault,
// the code at farcall_veo_landing restores them. Stack words are copied from the highest address
// down, so that a stack that is too small faults in its guard pages.

#if defined(__x86_64__)

asm(R"(
  .text
  .p2align 4
  .globl farcall_veo_invoke
  .hidden farcall_veo_invoke
  .type farcall_veo_invoke, @function
  .globl farcall_veo_landing
  .hidden farcall_veo_landing
farcall_veo_invoke:
  .cfi_startproc
  .cfi_personality 0x1b, farcall_veo_personality
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
farcall_veo_landing:
  # The calling convention requires these states of the direction flag and the FPU.
  cld
  fnclex
  emms
  jmp 4b
  .cfi_endproc
  .size farcall_veo_invoke, . - farcall_veo_invoke
)");

#else

asm(R"(
  .text
  .p2align 4
  .globl farcall_veo_invoke
  .hidden farcall_veo_invoke
  .type farcall_veo_invoke, %function
  .globl farcall_veo_landing
  .hidden farcall_veo_landing
farcall_veo_invoke:
  .cfi_startproc
  .cfi_personality 0x1b, farcall_veo_personality
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
farcall_veo_landing:
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
  .size farcall_veo_invoke, . - farcall_veo_invoke
)");

#endif
