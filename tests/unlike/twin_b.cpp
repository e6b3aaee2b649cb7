#include "tests/unlike/program.hpp"

namespace unlike {

static int twin(int v) { return 200 + v; }

int call_twin_of_b(const fc::node& there) { return fc::sync(there, fc::fn<&twin>, 1); }

#ifdef UNLIKE_TARGET
static int lone_twin(int v) { return 200 + v; }
/// Never called; its address is what keeps the function.
int (*kept_lone_twin)(int) = &lone_twin;
#endif

} // namespace unlike
