#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <string>
#include <vector>

namespace farcall::cuda {

/// The GPUs of this machine, as their driver tells without being used.
struct gpus_found {
  std::vector<device_description> gpus;
  std::string why_none; ///< in words, when there are none
};

/// Asks the driver's library, if there is one. Blocks for as long as the driver takes to wake up,
/// a second at most. Needs nothing of CUDA in the program.
[[nodiscard]] gpus_found find_gpus();

} // namespace farcall::cuda
