// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/program.hpp"

namespace different {

static int twin(int v) { return 200 + v; }

int call_twin_of_b(const fc::node& there) { return fc::sync(there, fc::fn<&twin>, 1); }

#ifdef DIFFERENT_TARGET
static int lone_twin(int v) { return 200 + v; }
/// Not called: they register the function by pointer and by fn.
int (*kept_lone_twin)(int) = &lone_twin;
int call_lone_twin_of_b(const fc::node& there) { return fc::sync(there, fc::fn<&lone_twin>, 1); }
#endif

} // namespace different
