#pragma once

#include "profile.hpp"

#include <string_view>

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

/// Sets what the thread of each sample does: the innermost function that says something decides.
/// Optimised builds have no frame pointers, and so a stack may be the innermost function alone.
/// Where that one looks for messages, it is for what the thread does at other times.
void classify_samples(profile& p);

} // namespace farcall::tool
