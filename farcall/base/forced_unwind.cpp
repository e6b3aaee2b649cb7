#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>

#include <new>

#include <cxxabi.h>

// __cxa_get_globals() of the Itanium C++ ABI. libc++abi has it, but in none of its headers.
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
    // The ends of the blocks would delete the exception, which ends the process.
    state->caught = nullptr;
    state->uncaught = uncaught;
    return true;
  } catch (...) {
    // Of another language.
    state->uncaught = uncaught;
    return false;
  }
#else
  return false; // libc++'s `catch (...)` does not catch it
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
