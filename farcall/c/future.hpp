#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/farcall.h>
#include <farcall/offload/future.hpp>

#include <cstddef>
#include <exception>
#include <utility>
#include <variant>

/// A call, or a copy, and its result once that was asked for. Used by one thread at a time.
struct fc_future {
  explicit fc_future(farcall::future<farcall::c::call_result> call, fc_function called) noexcept
      : pending(std::move(call)), function(called) {}
  /// `call` ends when a stop is requested of `ending`.
  fc_future(farcall::future<farcall::c::call_result> call, fc_function called,
            farcall::counted_ptr<farcall::am::stop_state> ending) noexcept
      : pending(std::move(call)), function(called), stop(std::move(ending)) {}
  explicit fc_future(farcall::future<void> copy) noexcept : pending(std::move(copy)) {}

  /// From what the calling thread has dropped: a call takes no memory from the heap.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  /// Empty once it is settled.
  std::variant<farcall::future<farcall::c::call_result>, farcall::future<void>> pending;
  fc_function function = 0; ///< 0 for a copy
  bool is_settled = false;  ///< one of these two is set
  farcall::c::call_result result;
  std::exception_ptr failure;
  /// Null for what cannot be stopped. Does not change, so that any thread may use it.
  const farcall::counted_ptr<farcall::am::stop_state> stop;
};

namespace farcall::c {

/// Takes the result of a call whose future is ready. Throws what the call ended with; a function
/// that the peer does not know is called by its name.
[[nodiscard]] call_result result_of(future<call_result>& ready, fc_function function);

/// What fc_wait_all() and the like need of a future that may be settled: null if it is.
[[nodiscard]] am::completion* state_of(const fc_future& f) noexcept;

} // namespace farcall::c
