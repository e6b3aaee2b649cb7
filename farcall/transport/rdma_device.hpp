// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace farcall {

/// True if this machine has an RDMA device (InfiniBand, RoCE) with a port that is up. `folder` is
/// the folder in which the kernel lists such devices. Never fails.
[[nodiscard]] bool has_rdma_device(const std::string& folder = "/sys/class/infiniband") noexcept;

} // namespace farcall
