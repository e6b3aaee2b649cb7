#pragma once

#include <cstddef>
#include <functional>
#include <string>

/// What a call costs that is a launch: the same small function, by all the ways that CUDA has.
namespace farcall::gpu {

struct launch_variant {
  std::string name;
  std::size_t launches = 1; ///< made by each call
};
inline constexpr std::size_t launch_variants = 12;

/// Gets each variant with a function that launches, and waits until the result is there.
using launch_visitor =
    std::function<void(const launch_variant& variant, const std::function<void()>& call)>;

/// Visits all variants, on the current device, which has to be idle. `visit` has to call each at
/// least once: results are checked afterwards. Wrong ones and CUDA's errors are std::runtime_error.
void visit_launches(const launch_visitor& visit);

} // namespace farcall::gpu
