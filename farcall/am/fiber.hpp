// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::am {

/// A separate stack on which a thread runs code, so that the thread can do other work while that
/// code waits (std::fiber_context of P0876). The code always resumes on the thread on which it
/// began, because it may hold addresses of that thread's variables.
class fiber {
 public:
  /// Reserves address space for a stack as large as a thread's. The kernel allocates its pages when
  /// they are touched. Throws std::bad_alloc.
  fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  /// Frees the stack. The function that the last run() began must have returned.
  ~fiber();

  using body = void (*)(void* argument) noexcept;

  /// Runs `what(argument)` until it returns or suspends. Returns true if it has returned; the fiber
  /// can then run another function.
  bool run(body what, void* argument) noexcept;
  /// Continues the function that called suspend(). Returns true if the function has returned.
  bool resume() noexcept;
  /// Suspends the calling fiber: returns to the caller of run() or resume(), until the next
  /// resume().
  void suspend() noexcept;

  /// Implementation detail: a fiber's entry function, and the steps of a switch between stacks that
  /// it shares with enter().
  struct transfer;

 private:
  /// The state of exception handling that the C++ runtime keeps for each thread (Itanium C++ ABI,
  /// __cxa_eh_globals). Each fiber has a copy, because a handler may wait inside a catch block.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  bool enter() noexcept;

  std::byte* stack_ = nullptr; ///< lowest address of the stack, whose first page is a guard page
  std::size_t bytes_ = 0;
  void* own_top_ = nullptr;    ///< stack pointer of the fiber while it is suspended
  void* caller_top_ = nullptr; ///< stack pointer of the fiber's caller while the fiber runs
  body what_ = nullptr;
  void* argument_ = nullptr;
  bool has_returned_ = true;
  exceptions own_exceptions_;
  // State for the sanitizers with which the program was compiled, if any. The thread sanitizer has
  // a handle for this fiber and one for the fiber's caller. The address sanitizer has the fake
  // stack, and the address and size of the caller's stack.
  void* sanitizer_fiber_ = nullptr;
  void* sanitizer_caller_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

} // namespace farcall::am
