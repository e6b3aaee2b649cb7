// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <string>

namespace farcall::tool {

/// Returns a description of a GPU, in one line.
[[nodiscard]] std::string gpu_text(const cuda::device_description& gpu);

} // namespace farcall::tool
