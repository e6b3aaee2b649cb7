// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../messages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::veo {

/// Direction in which the memory of a stack argument is copied. The enumerators have the values of
/// veo_args_intent.
enum class intent : int { in = 0, inout = 1, out = 2 };

/// Place in the program's memory to which bytes that a kernel has written are copied.
struct copy_back {
  char* to;
  std::size_t offset; ///< position in the bytes of the reply
  std::size_t bytes;
};

/// A call that is ready to be sent. In a call with stack arguments, the message points to `words`
/// and `sent` of this object. All other pointers of the message lead into the arguments object
/// until keep() copies its words and kinds.
struct prepared_call {
  kernel_call message;
  std::vector<std::uint64_t> words;
  std::vector<argument_kind> kinds;
  std::vector<std::byte> sent;
  std::vector<copy_back> results;

  /// Copies words and kinds, so that the message no longer refers to the arguments object.
  void keep();
};

/// Arguments of calls; the object behind a veo_args handle. One object can be used for several
/// calls. Not thread-safe.
class arguments {
 public:
  /// Sets an argument. Throws error if the number is out of range.
  void set(int number, std::uint64_t word, argument_kind kind);
  /// Sets a stack argument: the kernel gets the address of a copy of `bytes` bytes at `buffer`.
  /// According to `way`, the bytes are copied to the kernel when the call is submitted, copied back
  /// after the call, or both.
  void set_frame(int number, intent way, char* buffer, std::size_t bytes);
  void clear() noexcept;

  /// Makes a call of the function at `address`, with copies of the stack arguments. Throws error if
  /// an argument before the last one is not set.
  [[nodiscard]] prepared_call prepare(std::uint64_t address) const;

  /// True if there are stack arguments.
  [[nodiscard]] bool has_frame() const noexcept { return !frames_.empty(); }
  /// Returns the message of a call without stack arguments. The message points to memory of this
  /// object.
  [[nodiscard]] kernel_call message(std::uint64_t address) const;

 private:
  struct frame {
    int number;
    intent way;
    char* buffer;
    std::size_t bytes;
  };

  void make_space(int number);
  [[noreturn]] void refuse_hole() const;

  std::vector<std::uint64_t> words_;
  std::vector<argument_kind> kinds_;
  std::vector<bool> given_;
  std::size_t given_count_ = 0;
  bool all_integers_ = true;
  std::vector<frame> frames_;
};

} // namespace farcall::veo
