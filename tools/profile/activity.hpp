#pragma once

#include "profile.hpp"

#include <string_view>
#include <vector>

namespace farcall::tool {

/// What a function says about the thread that is in it, or in functions of libraries that it calls.
enum class function_part {
  any,     ///< nothing; the program's own, it computes
  library, ///< nothing; whoever calls it tells
  waits,   ///< for replies, or for a copy
  idle,    ///< looks for calls that have arrived
  looks,   ///< the same, or waits: whoever calls it tells
  handles, ///< runs a call that has arrived
};

/// By the name of the function, with or without its arguments.
[[nodiscard]] function_part part_of_function(std::string_view name);

/// What a thread does with each of the profile's stacks: the innermost function that says something
/// decides. Optimised builds have no frame pointers, and so a stack may be the innermost function
/// alone.
[[nodiscard]] std::vector<activity> activities_of(const profile& p);

} // namespace farcall::tool
