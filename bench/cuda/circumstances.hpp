// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "session.hpp"

namespace farcall::bench {

/// Returns the processors that this process may use, those near the GPU first.
[[nodiscard]] std::vector<int> cpus_for(const options& o);

/// Adds the conditions of the measurement: processor, GPU, driver, link, compilers, pinning.
void add_circumstances(report& out, const options& o, const std::vector<int>& cpus);

} // namespace farcall::bench
