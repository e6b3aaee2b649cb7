// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>

namespace farcall {

/// Makes sure that this process may open enough file descriptors for `nodes` more nodes. If the
/// soft limit is too low, raises it, at most to the hard limit. If `has_pipes` is true, also counts
/// the pipes for the nodes' output. Throws start_failed if the hard limit is too low; the text of
/// the exception names remedies.
void require_descriptors(std::size_t nodes, bool has_pipes = false);

} // namespace farcall
