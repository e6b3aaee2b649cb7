// SPDX-License-Identifier: Apache-2.0

// The driver's functions, which are found by name.

#include "machine.hpp"

#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace farcall::fake_cuda {
namespace {

constexpr std::uint64_t page_of_device = std::uint64_t{2} << 20;

CUresult for_driver(const std::optional<cudaError_t>& status) {
  return static_cast<CUresult>(*status); // the numbers that are used are the same
}

CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr,
                 unsigned long long) {
  if (const auto status = begins("cuMemAddressReserve")) return for_driver(status);
  void* const at =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard guard(here().mutex);
  here().reserved.add(number_of(at), bytes);
  here().reserved_by[number_of(at)] = device_in_use();
  *address = number_of(at);
  return CUDA_SUCCESS;
}

CUresult unreserve(CUdeviceptr address, std::size_t bytes) {
  if (const auto status = begins("cuMemAddressFree")) return for_driver(status);
  const std::lock_guard guard(here().mutex);
  if (!here().reserved.remove(address)) return CUDA_ERROR_INVALID_VALUE;
  here().reserved_by.erase(address);
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long) {
  if (const auto status = begins("cuMemCreate")) return for_driver(status);
  wait_for_idle_device("cuMemCreate");
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  if (bytes % page_of_device != 0) return CUDA_ERROR_INVALID_VALUE;
  if (m.mapped.bytes() + m.allocated.bytes() + bytes > m.memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto lacks = [&m](CUdevice_attribute what) { return m.attributes[what] == 0; };
  if ((properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
       lacks(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) ||
      (properties->allocFlags.gpuDirectRDMACapable != 0 &&
       lacks(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  unique_fd file(::memfd_create("memory of a fake GPU", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = m.next_handle++;
  m.created[*handle] =
      std::make_shared<allocation>(allocation{bytes, std::move(file), *properties});
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  if (const auto status = begins("cuMemRelease")) return for_driver(status);
  const std::lock_guard guard(here().mutex);
  return here().created.erase(handle) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  if (const auto status = begins("cuMemMap")) return for_driver(status);
  wait_for_idle_device("cuMemMap");
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  const auto created = m.created.find(handle);
  if (created == m.created.end() || created->second->bytes != bytes ||
      !m.reserved.hold(address, bytes) || m.mapped.hold(address, 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Accesses before cuMemSetAccess fault.
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             created->second->file.get(), 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  m.mapped.add(address, bytes);
  m.mapped_to[address] = created->second;
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  if (const auto status = begins("cuMemUnmap")) return for_driver(status);
  wait_for_idle_device("cuMemUnmap");
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  if (!m.mapped.remove(address)) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [device, its] : m.accessible)
    (void)its.remove(address);
  m.mapped_to.erase(address);
  // Accesses from now on fault.
  [[maybe_unused]] const void* const same =
      ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* what,
                    std::size_t count) {
  if (const auto status = begins("cuMemSetAccess")) return for_driver(status);
  wait_for_idle_device("cuMemSetAccess");
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  if (!m.mapped.hold(address, bytes) || what->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
      what->location.type != CU_MEM_LOCATION_TYPE_DEVICE || count != 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUmemAllocationProp& made = m.mapped_to.at(address)->properties;
  if (what->location.id != made.location.id && !m.are_peers) return CUDA_ERROR_NOT_SUPPORTED;
  if (::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  m.accessible[what->location.id].add(address, bytes);
  return CUDA_SUCCESS;
}

CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  if (const auto status = begins("cuMemGetAllocationGranularity")) return for_driver(status);
  *bytes = page_of_device;
  return CUDA_SUCCESS;
}

CUresult retain_allocation(CUmemGenericAllocationHandle* handle, void* address) {
  if (const auto status = begins("cuMemRetainAllocationHandle")) return for_driver(status);
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  const auto found = m.mapped_to.find(number_of(address));
  if (found == m.mapped_to.end()) return CUDA_ERROR_INVALID_VALUE;
  *handle = m.next_handle++;
  m.created[*handle] = found->second;
  return CUDA_SUCCESS;
}

CUresult export_allocation(void* fd, CUmemGenericAllocationHandle handle,
                           CUmemAllocationHandleType type, unsigned long long) {
  if (const auto status = begins("cuMemExportToShareableHandle")) return for_driver(status);
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  const auto found = m.created.find(handle);
  if (found == m.created.end() || type != found->second->properties.requestedHandleTypes ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(fd) = ::dup(found->second->file.get());
  return CUDA_SUCCESS;
}

CUresult write_value(CUstream handle, CUdeviceptr word, cuuint64_t value, unsigned /*flags*/) {
  if (const auto status = begins("cuStreamWriteValue64")) return for_driver(status);
  stream* const s = find(handle);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    const std::lock_guard guard(here().mutex);
    if (!here().pinned.hold(word, sizeof value)) return CUDA_ERROR_INVALID_VALUE;
  }
  s->add([word, value] {
    if (here().context_error.load() != cudaSuccess) return;
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word)).store(value);
  });
  return CUDA_SUCCESS;
}

CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
  if (const auto status = begins("cuThreadExchangeStreamCaptureMode")) return for_driver(status);
  const auto before = static_cast<CUstreamCaptureMode>(capture_mode);
  capture_mode = static_cast<cudaStreamCaptureMode>(*mode);
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult attribute(int* value, CUdevice_attribute what, CUdevice device) {
  if (const auto status = begins("cuDeviceGetAttribute")) return for_driver(status);
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  if (device < 0 || device >= m.devices) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = m.attributes.find(what);
  if (found == m.attributes.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

/// A context is represented by its device's number, from 1.
CUresult retain(CUcontext* context, CUdevice device) {
  if (const auto status = begins("cuDevicePrimaryCtxRetain")) return for_driver(status);
  const std::lock_guard guard(here().mutex);
  if (device < 0 || device >= here().devices) return CUDA_ERROR_INVALID_DEVICE;
  here().with_context.insert(device);
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{1} + static_cast<unsigned>(device));
  return CUDA_SUCCESS;
}
CUresult push(CUcontext context) {
  // A context that has faulted can still be pushed.
  const auto status = begins("cuCtxPushCurrent");
  if (status && *status != here().context_error.load()) return for_driver(status);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  pushed_contexts.push_back(static_cast<int>(reinterpret_cast<std::uintptr_t>(context) - 1));
  return CUDA_SUCCESS;
}
CUresult pop(CUcontext* context) {
  // Never fails: a thread can leave a context after a fault, too.
  if (pushed_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{1} +
                                         static_cast<unsigned>(pushed_contexts.back()));
  pushed_contexts.pop_back();
  return CUDA_SUCCESS;
}

} // namespace

void* driver_function(const std::string& name) {
  static const std::map<std::string, void*> all = {
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&retain)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(&push)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&pop)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
      {"cuThreadExchangeStreamCaptureMode", reinterpret_cast<void*>(&exchange_capture_mode)},
      {"cuStreamWriteValue64", reinterpret_cast<void*>(&write_value)},
      {"cuMemRetainAllocationHandle", reinterpret_cast<void*>(&retain_allocation)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_allocation)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&unreserve)},
      {"cuMemCreate", reinterpret_cast<void*>(&create)},
      {"cuMemRelease", reinterpret_cast<void*>(&release)},
      {"cuMemMap", reinterpret_cast<void*>(&map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

} // namespace farcall::fake_cuda
