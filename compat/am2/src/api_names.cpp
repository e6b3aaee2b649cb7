// SPDX-License-Identifier: Apache-2.0

// Functions for names of endpoints in am2.h and ammpi.h. Such a name consists of two numbers.
#include "api_names.hpp"

#include <am2.h>

namespace {

farcall::am2::endpoint_name to_name(en_t e) noexcept { return {e.node, e.endpoint}; }
en_t from_name(farcall::am2::endpoint_name n) noexcept { return {n.node, n.endpoint}; }

} // namespace

#include "api_names.inc.hpp"
