#include "unwinder.hpp"

/// Where libdw is not there.
namespace farcall::tool {

class unwinder::session {};

unwinder::unwinder(const modules& files) : files_(files) {}

unwinder::~unwinder() = default;

void unwinder::unwind(const address_space& /*space*/, sample_record& /*sample*/) {}

bool can_unwind() { return false; }

} // namespace farcall::tool
