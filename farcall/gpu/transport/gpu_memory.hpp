// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>

namespace farcall::cuda {

/// Memory of a GPU for allocations. It is a range of addresses, and memory is mapped in a growing
/// part of the range. The GPU must be selected in all calls. Functions that device_api marks
/// "waits" may wait.
class gpu_memory {
 public:
  explicit gpu_memory(int device) : device_(device) {}
  ~gpu_memory();
  gpu_memory(const gpu_memory&) = delete;
  gpu_memory& operator=(const gpu_memory&) = delete;

  /// See device_api.
  [[nodiscard]] device_api::range reserve(std::uint64_t at_most);
  void provide(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] bool is_open_to_peers();
  void open_to_peers();
  [[nodiscard]] std::vector<memory_handle> export_part(std::uint64_t address, std::uint64_t bytes);
  /// Releases the memory and its range of addresses. The caller must not use either any more.
  void give_back() noexcept;

  [[nodiscard]] bool holds(std::uint64_t address) const noexcept {
    return address >= range_.address && address - range_.address < range_.bytes;
  }

 private:
  struct driver_functions {
    decltype(&cuMemAddressReserve) reserve = nullptr;
    decltype(&cuMemAddressFree) free = nullptr;
    decltype(&cuMemCreate) create = nullptr;
    decltype(&cuMemRelease) release = nullptr;
    decltype(&cuMemMap) map = nullptr;
    decltype(&cuMemUnmap) unmap = nullptr;
    decltype(&cuMemSetAccess) set_access = nullptr;
    decltype(&cuMemGetAllocationGranularity) granularity = nullptr;

    static driver_functions load();
  };

  struct piece {
    std::uint64_t bytes = 0;
    std::vector<int> users; ///< devices that can access this memory
    [[nodiscard]] bool is_open_to(int device) const;
  };

  [[nodiscard]] std::vector<int> peers() const;
  void open(std::uint64_t address, piece& what, int device);
  void open_to_peers_locked();

  int device_;
  driver_functions driver_;
  CUmemAllocationProp allocation_{};
  std::size_t granule_ = 0;
  device_api::range range_;
  std::mutex mutex_;
  std::map<std::uint64_t, piece> pieces_; ///< by address; guarded by mutex_
};

} // namespace farcall::cuda
