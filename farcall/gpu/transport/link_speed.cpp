// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/link_speed.hpp>

#include <fstream>

namespace farcall::cuda {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

} // namespace

std::string link_speed(std::string_view bus_id) {
  std::string id(bus_id);
  for (char& c : id) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::string folder = "/sys/bus/pci/devices/" + id + "/";
  const std::string speed = first_line(folder + "current_link_speed");
  const std::string width = first_line(folder + "current_link_width");
  return speed.empty() || width.empty() ? speed : speed + " x" + width;
}

} // namespace farcall::cuda
