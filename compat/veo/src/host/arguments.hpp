#pragma once

#include "../messages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::veo {

/// Which way the memory behind a stack argument is copied; the numbers of veo_args_intent.
enum class intent : int { in = 0, inout = 1, out = 2 };

/// Where bytes that a kernel has written go.
struct copy_back {
  char* to;
  std::size_t offset; ///< in what the answer brings
  std::size_t bytes;
};

/// A call as it is sent. The message refers to the words and bytes beside it, and, where there is
/// no frame, to the arguments that it was made of.
struct prepared_call {
  kernel_call message;
  std::vector<std::uint64_t> words;
  std::vector<argument_kind> kinds;
  std::vector<std::byte> sent;
  std::vector<copy_back> results;

  /// Makes the message independent of the arguments.
  void keep();
};

/// Arguments of calls: the object behind veo_args. Not thread-safe; can be used for any number of
/// calls.
class arguments {
 public:
  /// Throws error for an impossible number.
  void set(int number, std::uint64_t word, argument_kind kind);
  /// The kernel gets the address of a copy of `bytes` bytes at `buffer`, which is made when the
  /// call is submitted, and copied back after it, as the intent says.
  void set_frame(int number, intent way, char* buffer, std::size_t bytes);
  void clear() noexcept;

  /// Throws error when an argument in between was never set.
  [[nodiscard]] prepared_call prepare(std::uint64_t address) const;

  /// Without memory on the stack: the message alone, which refers to these arguments.
  [[nodiscard]] bool has_frame() const noexcept { return !frames_.empty(); }
  [[nodiscard]] kernel_call message(std::uint64_t address) const;

 private:
  struct frame {
    int number;
    intent way;
    char* buffer;
    std::size_t bytes;
  };

  void make_room(int number);
  [[noreturn]] void refuse_hole() const;

  std::vector<std::uint64_t> words_;
  std::vector<argument_kind> kinds_;
  std::vector<bool> given_;
  std::size_t given_count_ = 0;
  bool all_integers_ = true;
  std::vector<frame> frames_;
};

} // namespace farcall::veo
