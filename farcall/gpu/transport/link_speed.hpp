// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace farcall::cuda {

/// Reads from /sys the speed and width of the link to the device with the given PCI bus id. The
/// result is a text such as "32.0 GT/s PCIe x16", which means PCIe's fifth generation with 16
/// lanes. The result is empty if the speed is unknown.
[[nodiscard]] std::string link_speed(std::string_view bus_id);

} // namespace farcall::cuda
