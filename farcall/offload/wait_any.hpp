#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/clock.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace farcall::detail {

/// Waits until one of `states`, which are futures' and not null, is ready: the first that is, or
/// nothing when the deadline passed. The futures stay as they are, so that it can be asked again;
/// nothing else may be attached to them. Throws error when they belong to several jobs.
[[nodiscard]] std::optional<std::size_t> wait_any(std::span<am::completion* const> states,
                                                  time_point deadline);

} // namespace farcall::detail
