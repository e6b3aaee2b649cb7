// SPDX-License-Identifier: Apache-2.0

// expect: the parameter of what fc::map calls is a bool
// names: bool
#include <farcall/farcall.hpp>

#include <vector>

auto f(const farcall::node& where, const std::vector<bool>& marks) {
  return farcall::map(where, [](bool is_marked) { return is_marked ? 1 : 0; }, marks);
}
