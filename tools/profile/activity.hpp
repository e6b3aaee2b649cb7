// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <string_view>

namespace farcall::tool {

/// Role of a function on the stack. The role says what a thread does while it is in this function,
/// or in library functions that this function calls.
enum class function_part {
  any,     ///< a function of the program, in which the thread computes
  library, ///< a library function, to which the role of its caller applies
  waits,   ///< a function that waits for replies, or for the end of a copy
  idle,    ///< a function that polls for calls that other nodes have sent
  looks,   ///< a function that polls; its callers show whether the thread waits or is idle
  handles, ///< a function that runs a call that another node has sent
};

/// Removes the return type from the name of a function. The demangled names of template functions
/// begin with their return type ("bool f<…>").
[[nodiscard]] std::string_view without_result(std::string_view name);

/// Returns the kind of work that a function does. Decides by the function's name, which may include
/// the types of its arguments.
[[nodiscard]] function_part part_of_function(std::string_view name);

/// Sets the activity of each sample by the innermost function that has a role. Optimised builds
/// have no frame pointers, so a sample's stack may consist of the innermost function alone. If this
/// function polls, the stack does not show whether the thread waits or is idle. Such a sample
/// counts as idle if more of the thread's other samples are idle than wait, and otherwise as
/// waiting.
void classify_samples(profile& p);

} // namespace farcall::tool
