#pragma once

#include <string>
#include <string_view>

namespace farcall {

/// A row of a program's table of callables, for people.
struct callable_description {
  std::string name;        ///< of the function, without its parameters; of the type, for an object
  std::string kind;        ///< "function", "pointer", "lambda", "object"
  std::string type;        ///< "double (double)"
  std::string layout;      ///< of the result and of each argument, "8:8,8:8"
  std::string contents;    ///< layout of what an object or lambda holds; empty: nothing
  std::string compiler;    ///< which numbers a lambda; empty for others
  std::string file;        ///< the only one that knows it, or the build; empty: others may, too
  bool is_library = false; ///< farcall's own
};

/// Of a name and a signature as peers see them (function_registry::names()).
[[nodiscard]] callable_description describe_callable(std::string_view name,
                                                     std::string_view signature);

/// A mangled type as one writes it: without inline namespaces, allocators and comparisons that are
/// the default.
[[nodiscard]] std::string readable_type(std::string_view mangled);

} // namespace farcall
