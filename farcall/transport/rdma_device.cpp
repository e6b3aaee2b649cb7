// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/rdma_device.hpp>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace farcall {

namespace fs = std::filesystem;

bool has_rdma_device(const std::string& folder) noexcept {
  try {
    std::error_code none;
    for (const fs::directory_entry& device : fs::directory_iterator(folder, none)) {
      for (const fs::directory_entry& port :
           fs::directory_iterator(device.path() / "ports", none)) {
        std::string state; // "4: ACTIVE"
        std::ifstream file(port.path() / "state");
        if (std::getline(file, state) && state.starts_with("4:")) return true;
      }
    }
  } catch (const std::exception&) {
    // Return false if the folder has changed while it was read, or if there is no memory.
  }
  return false;
}

} // namespace farcall
