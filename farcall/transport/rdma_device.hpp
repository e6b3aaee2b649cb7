#pragma once

#include <string>

namespace farcall {

/// Whether this machine has a device for RDMA (InfiniBand, RoCE) with a port that is up. The folder
/// is that of the kernel's devices. Never fails.
[[nodiscard]] bool has_rdma_device(const std::string& folder = "/sys/class/infiniband") noexcept;

} // namespace farcall
