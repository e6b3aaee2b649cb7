// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Origin of a function.
enum class code_kind : std::uint8_t {
  program, ///< a program, or a library outside of the system's folders
  library, ///< a library of the system, the standard library, or unknown code
  farcall, ///< farcall itself, which calls the program's functions
};

/// Tells where the functions of a profile come from.
class code_kinds {
 public:
  /// Keeps the paths of the programs that the profile's processes run.
  explicit code_kinds(const profile& seen);

  /// Decides by the function's name, its module and its source file. Names of inlined functions may
  /// lack their namespace.
  [[nodiscard]] code_kind kind_of(const profile_frame& frame) const;

 private:
  std::vector<std::string> programs_;
};

/// True for the parts of the standard library that pass a call on, such as std::invoke.
[[nodiscard]] bool passes_call_on(std::string_view function);

} // namespace farcall::tool
