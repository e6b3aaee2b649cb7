// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../argument_kind.hpp"
#include "fault.hpp"
#include "signature.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace farcall::veo {

/// A function of a kernel library, which is called with arguments in the layout of the Vector
/// Engine's registers: each argument is a 64-bit word, integers are widened, and a float is in the
/// upper half. Thread-safe.
class kernel {
 public:
  /// Makes a kernel with or without a known signature. Without a signature, arguments are passed by
  /// the kinds that the caller gives, and the result is taken as an integer.
  explicit kernel(const void* code, std::optional<signature> known = std::nullopt);

  struct result {
    std::uint64_t value; // result in the layout of the Vector Engine's registers; 0 after a fault
    int fault_signal;    // signal that ended the kernel; 0 if the kernel has returned
  };

  /// Runs the kernel and returns its result. If the signature does not describe an argument, `how`
  /// gives the argument's type; an argument behind the end of `how` is an integer. If `stack_top`
  /// is null, the kernel runs on the caller's stack. Throws std::bad_alloc, but only if there are
  /// more than 64 words on the stack. For the state after a fault see install_fault_handlers().
  result call(std::span<const std::uint64_t> words, std::span<const argument_kind> how,
              void* stack_top) const;

  /// False if the kernel takes or returns a value that does not fit one register and is not passed
  /// by address. The caller must not call such a kernel, because it would get other values than the
  /// arguments that were set.
  bool is_callable() const noexcept { return is_callable_; }

  const void* code() const noexcept { return code_; }
  const std::optional<signature>& known() const noexcept { return known_; }

 private:
  void place(std::span<const std::uint64_t> words, std::span<const argument_kind> how,
             register_image& image, std::uint64_t* stack) const noexcept;
  result run(register_image& image) const noexcept;

  const void* code_;
  std::optional<signature> known_;
  bool is_callable_;
};

} // namespace farcall::veo
