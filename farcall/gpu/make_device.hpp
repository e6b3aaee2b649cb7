// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/entry.hpp>
#include <farcall/job/members.hpp>

#include <cstdint>

namespace farcall::detail {

/// Makes the device that a target's URL names, with this program's code for the device. Throws
/// setting_error if a number in the URL is invalid. Throws error with the reason if there is no
/// such device, or if this program cannot use it, for example because it has no code for GPUs.
[[nodiscard]] cuda::device_with_code make_device(const target_url& url);

/// Returns the transport of the device that the node is. Returns null if the node is a process, or
/// a device of another process.
[[nodiscard]] cuda::cuda_transport* device_of(const members& members, node_id node) noexcept;

/// Type of the function that makes a GPU.
using gpu_maker = cuda::device_with_code (*)(std::uint32_t device, std::uint32_t workers,
                                             std::uint32_t threads);
/// Function that makes GPUs; null in programs without GPU code. Defined in the library, so that all
/// parts of a program share the variable even if they hide their symbols.
extern constinit gpu_maker linked_gpu_maker;

/// Reads the variable `symbol` of the selected GPU, which holds the address of a function on the
/// device, and returns this address.
[[nodiscard]] std::uint64_t read_gpu_address(const void* symbol);
/// Returns the launcher's address as a number. A call of this function makes the linker include
/// link.cpp, which sets up the use of GPUs.
[[nodiscard]] std::uint64_t gpu_launcher_address(cuda::launcher run);

} // namespace farcall::detail
