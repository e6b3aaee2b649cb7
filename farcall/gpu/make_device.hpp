#pragma once

#include <farcall/job/membership.hpp>

#include <cstdint>

namespace farcall::detail {

/// What makes GPUs, in a program that has code for them; null in others.
using gpu_maker = device_with_code (*)(std::uint32_t device, std::uint32_t workers,
                                       std::uint32_t threads);
inline constinit gpu_maker linked_gpu_maker = nullptr;

/// Where a GPU has what the symbol of device code points to. For the GPU that is selected.
[[nodiscard]] std::uint64_t read_gpu_address(const void* symbol);
/// The number that stands for what launches a kernel on GPUs.
[[nodiscard]] std::uint64_t gpu_launcher_address(cuda::launcher run);

} // namespace farcall::detail
