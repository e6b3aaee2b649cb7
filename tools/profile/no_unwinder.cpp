// SPDX-License-Identifier: Apache-2.0
#include "unwinder.hpp"

/// This file replaces unwinder.cpp if the program is built without libdw.
namespace farcall::tool {

class unwinder::session {};

unwinder::unwinder(const modules& files) : files_(files) {}

unwinder::~unwinder() = default;

void unwinder::unwind(const address_space& /*space*/, sample_record& /*sample*/) {}

bool can_unwind() { return false; }

} // namespace farcall::tool
