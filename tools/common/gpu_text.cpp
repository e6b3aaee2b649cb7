// SPDX-License-Identifier: Apache-2.0
#include "gpu_text.hpp"
#include "table.hpp"

#include <fmt/format.h>

namespace farcall::tool {

std::string gpu_text(const cuda::device_description& gpu) {
  return fmt::format("{}, {}, {} multiprocessors, {}, {}, {}", gpu.name, gpu.architecture,
                     gpu.processors, format_bytes(gpu.memory_bytes), gpu.driver,
                     gpu.link.empty() ? "link unknown" : gpu.link);
}

} // namespace farcall::tool
