// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <string>
#include <vector>

namespace farcall::cuda {

/// Descriptions of this machine's GPUs, as the driver reports them. Reading them does not use the
/// GPUs.
struct gpus_found {
  std::vector<device_description> gpus;
  std::string why_none; ///< the reason, if no GPU was found
};

/// Asks the driver's library for GPUs, if the library exists. May block for a second while the
/// driver wakes up. The program needs no part of CUDA for this.
[[nodiscard]] gpus_found find_gpus();

} // namespace farcall::cuda
