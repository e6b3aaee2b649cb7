// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/program.hpp"

namespace different {

static int twin(int v) { return 100 + v; }

int call_twin_of_a(const fc::node& there) { return fc::sync(there, fc::fn<&twin>, 1); }
int call_pointer_to_twin_of_a(const fc::node& there) { return fc::sync(there, twin, 1); }

#ifdef DIFFERENT_TARGET
int call_pointer_to_lone_twin(const fc::node& /*there*/) { return 0; }
int call_lone_twin(const fc::node& /*there*/) { return 0; }
#else
static int lone_twin(int v) { return 100 + v; }
int call_pointer_to_lone_twin(const fc::node& there) { return fc::sync(there, lone_twin, 1); }
int call_lone_twin(const fc::node& there) { return fc::sync(there, fc::fn<&lone_twin>, 1); }
#endif

} // namespace different
