#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::am {

/// A stack of its own, on which a thread runs code that may wait while the thread goes on with
/// something else (std::fiber_context of P0876). Used by one thread: what it runs goes on in the
/// thread in which it began, since it may have addresses of that thread's variables in hand.
class fiber {
 public:
  /// Takes the address space of a stack, as large as a thread's; memory is taken when touched.
  /// Throws std::bad_alloc.
  fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  /// Not before what it ran has returned.
  ~fiber();

  using body = void (*)(void* argument) noexcept;

  /// Runs `what(argument)` until it returns or suspends. True when it has returned; the fiber can
  /// then run something else.
  bool run(body what, void* argument) noexcept;
  /// Goes on where suspend() was called. True when what it ran has returned.
  bool resume() noexcept;
  /// Called on the fiber: goes on where run() or resume() was called, until the next resume().
  void suspend() noexcept;

  /// Switches between stacks: an implementation detail that the start of a fiber needs.
  struct transfer;

 private:
  /// The state of exception handling that the C++ runtime keeps per thread (Itanium C++ ABI,
  /// __cxa_eh_globals): a handler may wait inside a catch block.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  bool enter() noexcept;

  std::byte* stack_ = nullptr; ///< lowest address; it begins with a guard
  std::size_t bytes_ = 0;
  void* own_top_ = nullptr;    ///< where it goes on
  void* caller_top_ = nullptr; ///< where its caller goes on
  body what_ = nullptr;
  void* argument_ = nullptr;
  bool has_returned_ = true;
  exceptions own_exceptions_;
  // For the sanitizers that the program was compiled with, if any.
  void* sanitizer_fiber_ = nullptr;
  void* sanitizer_caller_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

} // namespace farcall::am
