// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/cuda.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::cuda {

/// A device, and the part of the program that the device runs.
struct device_with_code {
  std::unique_ptr<device_api> device;
  device_program program;
};

/// Type of a function that makes the device of a URL. It throws error with the reason if there is
/// no such device.
using device_maker = std::function<device_with_code(const target_url&)>;

/// Return the transport entries of GPUs, and of devices emulated by threads.
[[nodiscard]] transport_entry gpu_entry(device_maker make);
[[nodiscard]] transport_entry emulated_entry(device_maker make);

/// True if the target of a URL, or a node, is an emulated device.
[[nodiscard]] bool is_emulated(const target_url& url) noexcept;
[[nodiscard]] bool is_emulated(const card& device) noexcept;
/// True if a target is a GPU or an emulated device.
[[nodiscard]] bool is_device(const target_url& url) noexcept;

/// Returns the number of the device in a URL.
[[nodiscard]] std::uint32_t device_number(const target_url& url);

} // namespace farcall::cuda
