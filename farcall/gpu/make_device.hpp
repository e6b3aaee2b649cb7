#pragma once

#include <farcall/gpu/transport/entry.hpp>
#include <farcall/job/membership.hpp>

#include <cstdint>

namespace farcall::detail {

/// The device of a target's URL with the code that this program has for it. Throws error that says
/// why there is none, and setting_error.
[[nodiscard]] cuda::device_with_code make_device(const target_url& url);

/// The device that a node is, or null for one that is a process, or another's device.
[[nodiscard]] cuda::cuda_transport* device_of(const membership& members, node_id node) noexcept;

/// What makes GPUs, in a program that has code for them; null in others.
using gpu_maker = cuda::device_with_code (*)(std::uint32_t device, std::uint32_t workers,
                                             std::uint32_t threads);
/// Defined in the library: one for all parts of a program, whatever they hide.
extern constinit gpu_maker linked_gpu_maker;

/// Where a GPU has what the symbol of device code points to. For the GPU that is selected.
[[nodiscard]] std::uint64_t read_gpu_address(const void* symbol);
/// The number that stands for what launches a kernel on GPUs.
[[nodiscard]] std::uint64_t gpu_launcher_address(cuda::launcher run);

} // namespace farcall::detail
