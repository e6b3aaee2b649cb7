// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace farcall {

/// A row of a program's function registry, as text for people to read.
struct callable_description {
  /// Name of the function, without its parameters; for an object, name of its type.
  std::string name;
  std::string kind; ///< "function", "pointer", "lambda", "object"
  std::string type; ///< "double (double)"
  /// Size and alignment of the result and of each argument, for example "8:8,8:8"
  std::string layout;
  std::string contents;    ///< layout of the captures or members; may be empty
  std::string compiler;    ///< compiler that has numbered the lambda; empty for other callables
  std::string file;        ///< file or build to which the callable is local; may be empty
  bool is_library = false; ///< true for farcall's own callables
};

/// Returns the description of a callable for its name and signature from
/// function_registry::names().
[[nodiscard]] callable_description describe_callable(std::string_view name,
                                                     std::string_view signature);

/// Returns a mangled type as it appears in source code, without inline namespaces, default
/// allocators and default comparisons.
[[nodiscard]] std::string readable_type(std::string_view mangled);

} // namespace farcall
