// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::openmp {

/// A target region of a device. libomptarget gets the address of this object in place of the
/// address of the region's function, so that the function may move when the device is restarted.
struct region {
  std::string name;       ///< symbol of the function
  std::uint64_t code = 0; ///< address of the function in the target
};

/// Returns the description of a region for messages, for example "region in main, line 12". For a
/// function that is no region, such as the constructor of a variable, returns "function NAME".
[[nodiscard]] std::string region_text(std::string_view name);

/// Returns the text of an error as one line. The text of a device's crash has the functions on
/// lines of their own, of which the line has the program's.
[[nodiscard]] std::string one_line(std::string_view text);

} // namespace farcall::openmp
