// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>

namespace farcall {

/// Number of a node in its job. The host is node 0; targets have the numbers from 1.
using node_id = std::uint32_t;

/// Number of the host in every job.
inline constexpr node_id host_id = 0;

/// Value that means no node, for instance in an error that concerns no node.
inline constexpr node_id no_node = UINT32_MAX;

/// Node for which the calling thread acts instead of the process's own node; no_node if there is
/// none. Defined in the library, so that all modules of a program share it, even with hidden
/// visibility.
extern constinit thread_local node_id acting_node;

} // namespace farcall
