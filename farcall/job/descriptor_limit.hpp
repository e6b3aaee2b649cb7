#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>

namespace farcall {

/// Raises this process's limit of open descriptors, as far as it may, so that `nodes` more nodes
/// can be had, and what they print if that goes by pipes; leaves a limit that is high enough.
/// Throws start_failed that says what to do.
void require_descriptors(std::size_t nodes, bool has_pipes = false);

} // namespace farcall
