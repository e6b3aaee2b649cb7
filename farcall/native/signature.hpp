// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/native/arguments.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::native {

/// A signature that has a wrong letter, or too many parameters.
class signature_error : public error {
 public:
  using error::error;
};

/// How an argument gets to the function.
enum class passing : std::uint8_t {
  value, ///< in a register, or in a word on the stack
  /// The function gets the address of a copy of the caller's bytes. A zero follows the copy, so
  /// that a text may be sent without its terminating zero.
  in,
  out,    ///< the function gets the address of zeros, which are copied to the caller afterwards
  in_out, ///< both
};

/// Type of one parameter.
struct parameter {
  value_class kind = value_class::integer64;
  passing way = passing::value;
};

/// The types of a function, read from a text such as "d(dpl)".
struct signature {
  /// Largest number of parameters, which is the number that each compiler of C supports.
  static constexpr std::size_t max_parameters = 127;

  std::string text;
  value_class result = value_class::none;
  std::vector<parameter> parameters;
  bool has_buffers = false; ///< true if an argument is not passed as a value

  /// Returns the signature that the text describes. Throws signature_error with a text that names
  /// the first wrong letter.
  [[nodiscard]] static signature read(std::string_view text);
  /// Returns the same object for the same text, which is never destroyed, so that handles of
  /// functions can refer to it. Throws what read() throws. Any thread may call it.
  [[nodiscard]] static const signature& of(std::string_view text);
};

} // namespace farcall::native
