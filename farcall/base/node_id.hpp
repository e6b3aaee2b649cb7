#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>

namespace farcall {

/// Number of a node in its job. The host is node 0, targets follow from 1.
using node_id = std::uint32_t;

/// The host, in every job.
inline constexpr node_id host_id = 0;

/// Stands for "no node" where an error concerns none.
inline constexpr node_id no_node = UINT32_MAX;

/// The node that the calling thread stands for, where that is not the process's own; else no_node.
/// Defined in the library: one for all parts of a program, whatever they hide.
extern constinit thread_local node_id acting_node;

} // namespace farcall
