// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/fiber.hpp>
#include <farcall/base/bytes.hpp>

#include <cstring>
#include <new>

#include <pthread.h>
#include <sys/mman.h>

// Sanitizers must know on which stack a thread runs. A program may be compiled with a sanitizer
// although the library was not, so these references are weak. Without a sanitizer's runtime they
// are null.
extern "C" {
[[gnu::weak]] void start_switch(void** fake_stack, const void* bottom, std::size_t bytes) noexcept
    asm("__sanitizer_start_switch_fiber");
[[gnu::weak]] void finish_switch(void* fake_stack, const void** left_bottom,
                                 std::size_t* left_bytes) noexcept
    asm("__sanitizer_finish_switch_fiber");
[[gnu::weak]] void* current_thread_state() noexcept asm("__tsan_get_current_fiber");
[[gnu::weak]] void* make_thread_state(unsigned flags) noexcept asm("__tsan_create_fiber");
[[gnu::weak]] void destroy_thread_state(void* state) noexcept asm("__tsan_destroy_fiber");
[[gnu::weak]] void switch_thread_state(void* state, unsigned flags) noexcept
    asm("__tsan_switch_to_fiber");
}

// Reference to __cxa_get_globals() of the Itanium C++ ABI, which libc++abi declares in no public
// header.
extern "C" void* exception_globals() noexcept asm("__cxa_get_globals");

// Switches stacks: pushes the callee-saved registers on the stack that is left, and pops them from
// the stack that is entered. ucontext's swapcontext() would also make two system calls for the
// signal mask, which is the same for all stacks of a thread.
//
// farcall_switch_stack(void** left_top, void* entered_top)
extern "C" void farcall_switch_stack(void** left_top, void* entered_top) noexcept;

#if defined(__x86_64__) && !defined(FARCALL_SWITCH_BY_SYSTEM)
asm(R"(
  .pushsection .text
  .globl farcall_switch_stack
  .hidden farcall_switch_stack
  .type farcall_switch_stack, @function
farcall_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size farcall_switch_stack, .-farcall_switch_stack
  .popsection
)");
#elif defined(__aarch64__) && !defined(FARCALL_SWITCH_BY_SYSTEM)
asm(R"(
  .pushsection .text
  .globl farcall_switch_stack
  .hidden farcall_switch_stack
  .type farcall_switch_stack, %function
farcall_switch_stack:
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
  .size farcall_switch_stack, .-farcall_switch_stack
  .popsection
)");
#elif defined(__riscv) && __riscv_xlen == 64 && defined(__riscv_float_abi_double) &&               \
    !defined(FARCALL_SWITCH_BY_SYSTEM)
asm(R"(
  .pushsection .text
  .globl farcall_switch_stack
  .hidden farcall_switch_stack
  .type farcall_switch_stack, @function
farcall_switch_stack:
  addi sp, sp, -208
  sd ra, 0(sp)
  sd s0, 8(sp)
  sd s1, 16(sp)
  sd s2, 24(sp)
  sd s3, 32(sp)
  sd s4, 40(sp)
  sd s5, 48(sp)
  sd s6, 56(sp)
  sd s7, 64(sp)
  sd s8, 72(sp)
  sd s9, 80(sp)
  sd s10, 88(sp)
  sd s11, 96(sp)
  fsd fs0, 104(sp)
  fsd fs1, 112(sp)
  fsd fs2, 120(sp)
  fsd fs3, 128(sp)
  fsd fs4, 136(sp)
  fsd fs5, 144(sp)
  fsd fs6, 152(sp)
  fsd fs7, 160(sp)
  fsd fs8, 168(sp)
  fsd fs9, 176(sp)
  fsd fs10, 184(sp)
  fsd fs11, 192(sp)
  sd sp, 0(a0)
  mv sp, a1
  ld ra, 0(sp)
  ld s0, 8(sp)
  ld s1, 16(sp)
  ld s2, 24(sp)
  ld s3, 32(sp)
  ld s4, 40(sp)
  ld s5, 48(sp)
  ld s6, 56(sp)
  ld s7, 64(sp)
  ld s8, 72(sp)
  ld s9, 80(sp)
  ld s10, 88(sp)
  ld s11, 96(sp)
  fld fs0, 104(sp)
  fld fs1, 112(sp)
  fld fs2, 120(sp)
  fld fs3, 128(sp)
  fld fs4, 136(sp)
  fld fs5, 144(sp)
  fld fs6, 152(sp)
  fld fs7, 160(sp)
  fld fs8, 168(sp)
  fld fs9, 176(sp)
  fld fs10, 184(sp)
  fld fs11, 192(sp)
  addi sp, sp, 208
  ret
  .size farcall_switch_stack, .-farcall_switch_stack
  .popsection
)");
#else
#ifndef FARCALL_SWITCH_BY_SYSTEM
#define FARCALL_SWITCH_BY_SYSTEM
#endif
#include <ucontext.h>
// Processors without an assembly version use swapcontext() and pay for its system calls. The
// context is saved on the stack that is left.
extern "C" void farcall_switch_stack(void** left_top, void* entered_top) noexcept {
  ucontext_t left;
  *left_top = &left;
  ::swapcontext(&left, static_cast<ucontext_t*>(entered_top));
}
#endif

namespace farcall::am {
namespace {

/// Size of the guard page: a multiple of every page size.
constexpr std::size_t guard_bytes = 65'536;

/// Returns the stack size of new threads, which fibers get, too, because a handler may run on
/// either stack.
std::size_t stack_bytes() noexcept {
  static const std::size_t bytes = [] {
    std::size_t found = std::size_t{8} << 20;
    pthread_attr_t attributes;
    if (::pthread_attr_init(&attributes) == 0) {
      std::size_t set = 0;
      if (::pthread_attr_getstacksize(&attributes, &set) == 0 && set != 0) found = set;
      ::pthread_attr_destroy(&attributes);
    }
    return align_up(found, guard_bytes) + guard_bytes;
  }();
  return bytes;
}

#if defined(FARCALL_SWITCH_BY_SYSTEM)
#elif defined(__x86_64__)
constexpr std::size_t return_word = 7;
/// Number of words on the stack of a new fiber. The entry function expects the stack as it is after
/// a call instruction, with a stack pointer that is 8 less than a multiple of 16.
constexpr std::size_t frame_words = 9;
#elif defined(__aarch64__)
constexpr std::size_t return_word = 11;
constexpr std::size_t frame_words = 22;
#else
constexpr std::size_t return_word = 0;
constexpr std::size_t frame_words = 26;
#endif

/// The fiber that is about to begin. A variable passes the fiber to the entry function, because no
/// register is free for this.
constinit thread_local fiber* starting = nullptr;

} // namespace

struct fiber::transfer {
  /// Entry function of a fiber. Runs the functions that run() gives to the fiber, one after the
  /// other, for as long as the fiber exists.
  [[noreturn]] static void begin() noexcept {
    fiber& self = *starting;
    arrived(self);
    for (;;) {
      self.what_(self.argument_);
      self.has_returned_ = true;
      self.suspend();
    }
  }

  static void exchange_exceptions(exceptions& own) noexcept {
    void* const globals = exception_globals();
    exceptions current;
    std::memcpy(&current, globals, sizeof current);
    std::memcpy(globals, &own, sizeof own);
    own = current;
  }

  /// Finishes a stack switch; the first step on the entered fiber.
  static void arrived(fiber& f) noexcept {
    if (finish_switch != nullptr) finish_switch(f.fake_stack_, &f.caller_stack_, &f.caller_bytes_);
  }
};

fiber::fiber() : bytes_(stack_bytes()) {
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(at);
  if (::mprotect(stack_, guard_bytes, PROT_NONE) != 0) {
    ::munmap(stack_, bytes_);
    throw std::bad_alloc();
  }
#ifdef FARCALL_SWITCH_BY_SYSTEM
  auto* const top = new (stack_ + bytes_ - align_up(sizeof(ucontext_t), 64)) ucontext_t;
  ::getcontext(top);
  top->uc_stack.ss_sp = stack_;
  top->uc_stack.ss_size = static_cast<std::size_t>(reinterpret_cast<std::byte*>(top) - stack_);
  top->uc_link = nullptr;
  ::makecontext(top, &transfer::begin, 0);
#else
  auto* const top = reinterpret_cast<std::uintptr_t*>(stack_ + bytes_) - frame_words;
  top[return_word] = reinterpret_cast<std::uintptr_t>(&transfer::begin);
#if defined(__x86_64__)
  // Save the floating-point modes of the current thread, because a fiber inherits the modes of the
  // thread that makes it.
  asm volatile("stmxcsr %0\n\tfnstcw %1"
               : "=m"(*reinterpret_cast<std::uint32_t*>(top)),
                 "=m"(*(reinterpret_cast<std::uint32_t*>(top) + 1)));
#endif
#endif
  own_top_ = top;
  if (make_thread_state != nullptr) sanitizer_fiber_ = make_thread_state(0);
}

fiber::~fiber() {
  if (destroy_thread_state != nullptr) destroy_thread_state(sanitizer_fiber_);
  ::munmap(stack_, bytes_);
}

bool fiber::run(body what, void* argument) noexcept {
  what_ = what;
  argument_ = argument;
  has_returned_ = false;
  starting = this;
  return enter();
}

bool fiber::resume() noexcept { return enter(); }

bool fiber::enter() noexcept {
  transfer::exchange_exceptions(own_exceptions_);
  void* fake_stack = nullptr;
  if (start_switch != nullptr) {
    start_switch(&fake_stack, stack_ + guard_bytes, bytes_ - guard_bytes);
  }
  if (switch_thread_state != nullptr) {
    sanitizer_caller_ = current_thread_state();
    switch_thread_state(sanitizer_fiber_, 0);
  }
  farcall_switch_stack(&caller_top_, own_top_);
  if (finish_switch != nullptr) finish_switch(fake_stack, nullptr, nullptr);
  transfer::exchange_exceptions(own_exceptions_);
  return has_returned_;
}

void fiber::suspend() noexcept {
  if (start_switch != nullptr) start_switch(&fake_stack_, caller_stack_, caller_bytes_);
  if (switch_thread_state != nullptr) switch_thread_state(sanitizer_caller_, 0);
  farcall_switch_stack(&own_top_, caller_top_);
  transfer::arrived(*this);
}

} // namespace farcall::am
