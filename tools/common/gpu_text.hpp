#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <string>

namespace farcall::tool {

/// What is known about a GPU, in a line.
[[nodiscard]] std::string gpu_text(const cuda::device_description& gpu);

} // namespace farcall::tool
