// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scale.hpp"

/// Rates of calls and memory as one number of a job grows: nodes, threads, lanes, or calls under
/// way. Each point is measured by a process of its own.
namespace farcall::tool {

/// Measures the numbers up to the largest one, and prints them.
int run_growth(const scale_options& options);

} // namespace farcall::tool
