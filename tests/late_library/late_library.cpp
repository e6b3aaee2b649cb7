// SPDX-License-Identifier: Apache-2.0

// Loaded by late_library_test.cpp while its job runs.
#include "tests/late_library/late_library.hpp"

namespace fc = farcall;

extern "C" const late::functions farcall_late_functions;

namespace late {

int twice(int v) { return 2 * v; }
int thrice(int v) { return 3 * v; }
std::string with_mark(const std::string& text) { return text + "!"; }

namespace {

int call_function(const fc::node& where, int v) { return fc::sync(where, fc::fn<&twice>, v); }

int call_lambda(const fc::node& where, int v) {
  return fc::sync(where, [v](int w) { return v + w; }, 1000);
}

int call_plain_function(const fc::node& where, int v) { return fc::sync(where, &thrice, v); }

std::string call_with_text(const fc::node& where, const std::string& text) {
  return fc::sync(where, fc::fn<&with_mark>, text);
}

int call_by_way_of(const fc::node& where, const fc::node& then, int v) {
  return fc::sync(where, fc::fn<&call_function>, then, v);
}

} // namespace
} // namespace late

const late::functions farcall_late_functions{&late::call_function, &late::call_lambda,
                                             &late::call_plain_function, &late::call_with_text,
                                             &late::call_by_way_of};
