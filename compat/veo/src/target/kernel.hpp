#pragma once

#include "../argument_kind.hpp"
#include "signature.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace farcall::veo {

struct register_image;

/// A function of a kernel library, and how to call it with the registers of the vector engine: one
/// file of 64-bit words, integers widened, a float in the upper half. Any thread may call.
class kernel {
 public:
  /// Without a signature, how the arguments were set decides, and the result is an integer.
  explicit kernel(const void* code, std::optional<signature> known = std::nullopt);

  struct result {
    std::uint64_t value; // as in the register of the vector engine; 0 after a fault
    int fault_signal;    // 0: the kernel has returned
  };

  /// Where the signature says nothing of an argument, `how` does; where that is shorter, the
  /// argument is an integer. A null stack is the caller's. Throws std::bad_alloc, and that only
  /// with more than 64 words on the stack. After a fault see install_fault_handlers.
  result call(std::span<const std::uint64_t> words, std::span<const argument_kind> how,
              void* stack_top) const;

  /// False for one that takes or gives by value what does not travel in one register: a call would
  /// mean other values than those that were set.
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
