// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>

#include <new>

#include <cxxabi.h>

// __cxa_get_globals() of the Itanium C++ ABI, which libc++abi defines but declares in no header.
extern "C" void* handled_exceptions() noexcept asm("__cxa_get_globals");

namespace farcall {

bool stop_forced_unwind() noexcept {
#ifdef __GLIBCXX__
  struct globals {
    void* caught;
    unsigned int uncaught;
  };
  auto* const state = static_cast<globals*>(handled_exceptions());
  if (state->caught == nullptr || std::current_exception()) return false;
  const unsigned int uncaught = state->uncaught;
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    // Clear the caught exception. Otherwise the end of the catch block would delete it, which would
    // end the process.
    state->caught = nullptr;
    state->uncaught = uncaught;
    return true;
  } catch (...) {
    // The exception was thrown by code of another language.
    state->uncaught = uncaught;
    return false;
  }
#else
  return false; // with libc++, `catch (...)` does not catch forced unwinding
#endif
}

std::exception_ptr caught_exception() noexcept {
  if (std::exception_ptr caught = std::current_exception()) return caught;
  try {
    return std::make_exception_ptr(error(stop_forced_unwind()
                                             ? stopped_unwind_text
                                             : "an exception of another language was thrown"));
  } catch (const std::exception&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

} // namespace farcall
