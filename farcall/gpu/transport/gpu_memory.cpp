// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/gpu/transport/cuda_calls.hpp>
#include <farcall/gpu/transport/gpu_memory.hpp>

#include <algorithm>
#include <string>

#include <cuda_runtime_api.h>

namespace farcall::cuda {
namespace {

/// The memory of all GPUs that this process uses.
struct all_memory {
  std::mutex mutex;
  std::vector<const gpu_memory*> parts;

  static all_memory& instance() {
    static auto* const it = new all_memory;
    return *it;
  }
};

} // namespace

gpu_memory::~gpu_memory() {
  all_memory& all = all_memory::instance();
  const std::lock_guard guard(all.mutex);
  std::erase(all.parts, this);
}

gpu_memory::driver_functions gpu_memory::driver_functions::load() {
  driver_functions f;
  f.reserve = driver_function<decltype(f.reserve)>("cuMemAddressReserve");
  f.free = driver_function<decltype(f.free)>("cuMemAddressFree");
  f.create = driver_function<decltype(f.create)>("cuMemCreate");
  f.release = driver_function<decltype(f.release)>("cuMemRelease");
  f.map = driver_function<decltype(f.map)>("cuMemMap");
  f.unmap = driver_function<decltype(f.unmap)>("cuMemUnmap");
  f.set_access = driver_function<decltype(f.set_access)>("cuMemSetAccess");
  f.granularity = driver_function<decltype(f.granularity)>("cuMemGetAllocationGranularity");
  return f;
}

device_api::range gpu_memory::reserve(std::uint64_t at_most) {
  driver_ = driver_functions::load();
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the device's memory");
  allocation_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocation_.location.id = device_;
  if (has_attribute(device_, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    allocation_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (has_attribute(device_, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    allocation_.allocFlags.gpuDirectRDMACapable = 1;
  check_driver(driver_.granularity(&granule_, &allocation_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "asking for the size of pages");
  const std::uint64_t bytes =
      align_up(at_most == 0 ? total : std::min<std::uint64_t>(at_most, total), granule_);
  CUdeviceptr start = 0;
  check_driver(driver_.reserve(&start, bytes, 0, 0, 0), "reserving addresses");
  range_ = {start, bytes};
  all_memory& all = all_memory::instance();
  const std::lock_guard guard(all.mutex);
  all.parts.push_back(this);
  return range_;
}

void gpu_memory::provide(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t whole = align_up(bytes, granule_);
  CUmemGenericAllocationHandle handle{};
  CUresult made = driver_.create(&handle, whole, &allocation_, 0);
  if (made != CUDA_SUCCESS && made != CUDA_ERROR_OUT_OF_MEMORY) {
    // Try again without the optional features, one after the other, because a device may report a
    // feature and refuse it nevertheless.
    allocation_.allocFlags.gpuDirectRDMACapable = 0;
    made = driver_.create(&handle, whole, &allocation_, 0);
    if (made != CUDA_SUCCESS) {
      allocation_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
      made = driver_.create(&handle, whole, &allocation_, 0);
    }
  }
  if (made != CUDA_ERROR_OUT_OF_MEMORY) check_driver(made, "making memory of the device");
  if (made != CUDA_SUCCESS) {
    std::size_t free = 0;
    std::size_t total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw out_of_memory(std::to_string(whole) + " bytes more are not to be had: the device has " +
                        std::to_string(free) + " free of " + std::to_string(total) +
                        ", other programs' use included");
  }
  const CUresult mapped = driver_.map(address, whole, 0, handle, 0);
  // Release the handle, because the mapping itself keeps the memory allocated.
  (void)driver_.release(handle);
  check_driver(mapped, "mapping memory of the device");
  const std::lock_guard guard(mutex_);
  piece& added = pieces_[address];
  added.bytes = whole;
  try {
    open(address, added, device_);
    open_to_peers_locked();
  } catch (...) {
    // Unmap the memory, so that no memory is mapped at the addresses when provide() is tried again.
    (void)driver_.unmap(address, whole);
    pieces_.erase(address);
    throw;
  }
}

bool gpu_memory::piece::is_open_to(int device) const {
  return std::find(users.begin(), users.end(), device) != users.end();
}

void gpu_memory::open(std::uint64_t address, piece& what, int device) {
  if (what.is_open_to(device)) return;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check_driver(driver_.set_access(address, what.bytes, &access, 1), "mapping memory of the device");
  what.users.push_back(device);
}

/// Returns the other devices that this process uses, and that can access this device's memory.
std::vector<int> gpu_memory::peers() const {
  std::vector<int> found;
  all_memory& all = all_memory::instance();
  const std::lock_guard guard(all.mutex);
  for (const gpu_memory* const other : all.parts) {
    int can = 0;
    if (other->device_ == device_) continue;
    check(cudaDeviceCanAccessPeer(&can, other->device_, device_), "asking for peers");
    if (can != 0) found.push_back(other->device_);
  }
  return found;
}

bool gpu_memory::is_open_to_peers() {
  const std::lock_guard guard(mutex_);
  if (pieces_.empty()) return true;
  const std::vector<int> users = peers();
  return std::all_of(pieces_.begin(), pieces_.end(), [&](const auto& p) {
    return std::all_of(users.begin(), users.end(),
                       [&](int device) { return p.second.is_open_to(device); });
  });
}

void gpu_memory::open_to_peers_locked() {
  for (const int device : peers()) {
    for (auto& [address, what] : pieces_)
      open(address, what, device);
  }
}

void gpu_memory::open_to_peers() {
  const std::lock_guard guard(mutex_);
  open_to_peers_locked();
}

std::vector<memory_handle> gpu_memory::export_part(std::uint64_t address, std::uint64_t bytes) {
  if (allocation_.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
    throw error("memory of this device cannot be exported: it has no file descriptors for that");
  static const auto retain =
      driver_function<decltype(&cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle");
  static const auto export_handle =
      driver_function<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  std::vector<memory_handle> all;
  const std::lock_guard guard(mutex_);
  for (const auto& [start, what] : pieces_) {
    const std::uint64_t length = what.bytes;
    const std::uint64_t first = std::max(address, start);
    const std::uint64_t end = std::min(address + bytes, start + length);
    if (first >= end) continue;
    CUmemGenericAllocationHandle allocation{};
    check_driver(retain(&allocation, reinterpret_cast<void*>(start)), "exporting memory");
    int fd = -1;
    const CUresult exported =
        export_handle(&fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    (void)driver_.release(allocation);
    check_driver(exported, "exporting memory");
    all.push_back({unique_fd(fd), length, first - start, end - first});
  }
  return all;
}

void gpu_memory::give_back() noexcept {
  for (const auto& [address, what] : pieces_)
    (void)driver_.unmap(address, what.bytes);
  if (range_.bytes != 0) (void)driver_.free(range_.address, range_.bytes);
}

} // namespace farcall::cuda
