#pragma once

#include <farcall/farcall.hpp>

#include <string>

/// What the library lets the program that has loaded it do. Each calls something that only the
/// library knows.
namespace late {

struct functions {
  int (*call_function)(const farcall::node& where, int v);
  int (*call_lambda)(const farcall::node& where, int v);
  int (*call_plain_function)(const farcall::node& where, int v);
  std::string (*call_with_text)(const farcall::node& where, const std::string& text);
  /// Has `where` make the first of these calls, to `then`.
  int (*call_by_way_of)(const farcall::node& where, const farcall::node& then, int v);
};

} // namespace late
