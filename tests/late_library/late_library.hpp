// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <string>

/// Functions of the library, for the program that loads it. Each calls a callable that only the
/// library defines.
namespace late {

struct functions {
  int (*call_function)(const farcall::node& where, int v);
  int (*call_lambda)(const farcall::node& where, int v);
  int (*call_plain_function)(const farcall::node& where, int v);
  std::string (*call_with_text)(const farcall::node& where, const std::string& text);
  /// Makes `where` call the first of these functions, with `then` as its target.
  int (*call_by_way_of)(const farcall::node& where, const farcall::node& then, int v);
};

} // namespace late
