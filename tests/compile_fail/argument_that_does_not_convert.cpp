// SPDX-License-Identifier: Apache-2.0

// expect: an argument of this call does not convert to the function's parameter
// names: std::(__cxx11::)?(basic_)?string
#include <farcall/farcall.hpp>

int length(std::string text);

void f(const farcall::node& where) { farcall::post(where, length, 1.5); }
