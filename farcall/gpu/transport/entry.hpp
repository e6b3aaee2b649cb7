#pragma once

#include <farcall/gpu/transport/cuda.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::cuda {

/// A device, and what it runs of the program.
struct device_with_code {
  std::unique_ptr<device_api> device;
  device_program program;
};

/// Makes the device of a URL. Throws error that says why there is none.
using device_maker = std::function<device_with_code(const target_url&)>;

/// The rows of GPUs, and of devices that are made of threads.
[[nodiscard]] transport_entry gpu_entry(device_maker make);
[[nodiscard]] transport_entry emulated_entry(device_maker make);

/// Whether a target, or a node, is a device made of threads, and not a GPU.
[[nodiscard]] bool is_emulated(const target_url& url) noexcept;
[[nodiscard]] bool is_emulated(const card& device) noexcept;
/// Whether a target is a device of either kind.
[[nodiscard]] bool is_device(const target_url& url) noexcept;

/// The number of the device that a URL means.
[[nodiscard]] std::uint32_t device_number(const target_url& url);

} // namespace farcall::cuda
