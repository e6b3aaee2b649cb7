// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace farcall::detail {

/// Waits until one of `states` is ready, where `states` are the non-null states of futures. Returns
/// the index of the first ready state, or nullopt if the deadline has passed. The futures are
/// unchanged, so that the caller can wait for them again. The futures must have no other
/// continuations. Throws error if the futures belong to several jobs.
[[nodiscard]] std::optional<std::size_t> wait_any(std::span<am::completion* const> states,
                                                  time_point deadline);

} // namespace farcall::detail
