// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

/// Costs of a call that is a launch: the same small function, by all the ways that CUDA offers.
namespace farcall::gpu {

struct launch_variant {
  std::string name;
  std::size_t launches = 1; ///< made by each call
};
inline constexpr std::size_t launch_variants = 12;

/// Called for each variant with a function that launches, and waits for the result.
using launch_visitor =
    std::function<void(const launch_variant& variant, const std::function<void()>& call)>;

/// Visits all variants on the current device, which must be idle. `visit` must call each function
/// at least once: results are checked afterwards. Wrong results, and errors of CUDA, throw
/// std::runtime_error.
void visit_launches(const launch_visitor& visit);

} // namespace farcall::gpu
