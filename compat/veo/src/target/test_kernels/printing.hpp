// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../signature.hpp"

#include <ostream>

namespace farcall::veo {

/// Prints a signature in messages of tests.
inline std::ostream& operator<<(std::ostream& stream, const signature& shown) {
  stream << static_cast<int>(shown.result) << " (";
  for (const value_class parameter : shown.parameters)
    stream << " " << static_cast<int>(parameter);
  return stream << (shown.is_variadic ? " ...)" : " )");
}

} // namespace farcall::veo
