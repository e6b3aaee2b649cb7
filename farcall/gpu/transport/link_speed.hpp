#pragma once

#include <string>
#include <string_view>

namespace farcall::cuda {

/// Speed and width of the link to the device with that PCI bus id, as the system tells:
/// "32.0 GT/s PCIe x16", which is the fifth generation. Empty where it does not.
[[nodiscard]] std::string link_speed(std::string_view bus_id);

} // namespace farcall::cuda
