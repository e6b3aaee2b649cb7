// SPDX-License-Identifier: Apache-2.0

// The functions of CUDA's runtime.

#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace farcall::fake_cuda {
namespace {

constexpr int driver_version = 13000;

/// Allocates memory that is not zeroed: on a GPU it is zero by chance only.
void* memory_of_host(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::memset(at, 0xA5, std::min<std::size_t>(bytes, 4096));
  return at;
}

cudaError_t take(blocks& from, void* address, const char* function) {
  machine& m = here();
  wait_for_idle_device(function);
  const std::lock_guard guard(m.mutex);
  const auto found = from.all().find(number_of(address));
  if (found == from.all().end()) return failing(cudaErrorInvalidValue);
  ::munmap(address, found->second);
  (void)from.remove(number_of(address));
  return cudaSuccess;
}

enum class side { pageable, pinned, device };
side side_of(const void* address, std::size_t bytes) {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  const std::uint64_t at = number_of(address);
  if (m.pinned.hold(at, bytes)) return side::pinned;
  return m.reserved.hold(at, 1) || m.allocated.hold(at, 1) ? side::device : side::pageable;
}

/// Returns the device that the address belongs to.
int owner_of(const void* address) {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  const auto next = m.reserved_by.upper_bound(number_of(address));
  if (next == m.reserved_by.begin() || !m.reserved.hold(number_of(address), 1)) return 0;
  return std::prev(next)->second;
}

bool is_there(const void* address, std::size_t bytes) {
  return can_use(owner_of(address), number_of(address), bytes) || [&] {
    const std::lock_guard guard(here().mutex);
    return here().allocated.hold(number_of(address), bytes);
  }();
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, stream* on,
                 bool is_of_peers = false) {
  const side target = side_of(to, bytes);
  const side source = side_of(from, bytes);
  const bool is_up = kind == cudaMemcpyDeviceToHost;
  const bool is_down = kind == cudaMemcpyHostToDevice;
  if ((target == side::device && !is_there(to, bytes)) ||
      (source == side::device && !is_there(from, bytes)) || (is_up && source != side::device) ||
      (is_down && target != side::device)) {
    return failing(cudaErrorInvalidValue);
  }
  // Memory is mapped for its own device; the copy engine of another device can reach it only as a
  // peer.
  if (target == side::device && source == side::device && !is_of_peers &&
      owner_of(to) != owner_of(from) &&
      (on == nullptr || !can_use(on->device(), number_of(to), bytes) ||
       !can_use(on->device(), number_of(from), bytes))) {
    return failing(cudaErrorInvalidValue);
  }
  const auto move = [=] { std::memmove(to, from, bytes); };
  if (on != nullptr && target != side::pageable && source != side::pageable) {
    on->add(move);
  } else {
    if (on != nullptr) on->wait();
    move();
  }
  return cudaSuccess;
}

} // namespace
} // namespace farcall::fake_cuda

using namespace farcall::fake_cuda;

extern "C" {

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
  case cudaSuccess:
    return "no error";
  case cudaErrorIllegalAddress:
    return "an illegal memory access was encountered";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  default:
    return "a fake error";
  }
}
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorFake";
}
cudaError_t cudaGetLastError() {
  const cudaError_t status = std::exchange(last_error, cudaSuccess);
  const int context = here().context_error.load();
  return context != cudaSuccess ? static_cast<cudaError_t>(context) : status;
}

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  if (const auto status = begins(__func__)) return *status;
  const std::lock_guard guard(here().mutex);
  *count = here().devices;
  return *count == 0 ? failing(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (const auto status = begins(__func__)) return *status;
  *device = device_in_use();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (const auto status = begins(__func__)) return *status;
  const std::lock_guard guard(here().mutex);
  if (device < 0 || device >= here().devices) return failing(cudaErrorInvalidDevice);
  if (pushed_contexts.empty()) {
    current_device = device;
  } else {
    pushed_contexts.back() = device;
  }
  // Since CUDA 12 this makes the context, not the first use.
  here().with_context.insert(device);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  if (const auto status = begins(__func__)) return *status;
  *properties = {};
  std::strcpy(properties->name, "fake GPU");
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 132;
  const std::lock_guard guard(here().mutex);
  properties->totalGlobalMem = here().memory;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int /*device*/) {
  if (const auto status = begins(__func__)) return *status;
  std::strncpy(text, "0000:00:00.0", static_cast<std::size_t>(length));
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (const auto status = begins(__func__)) return *status;
  const std::lock_guard guard(here().mutex);
  if (std::max(device, peer) >= here().devices) return failing(cudaErrorInvalidDevice);
  *can = here().are_peers && device != peer ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const auto status = begins(__func__)) return *status;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  free_everything();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = driver_version;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  if (const auto status = begins(__func__)) return *status;
  *function = driver_function(symbol);
  if (result != nullptr) {
    *result =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

// ---- memory

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const auto status = begins(__func__)) return *status;
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  *total = m.memory;
  *free = m.memory - m.mapped.bytes() - m.allocated.bytes();
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  *memory = memory_of_host(bytes);
  if (*memory == nullptr) return failing(cudaErrorMemoryAllocation);
  const std::lock_guard guard(here().mutex);
  here().pinned.add(number_of(*memory), bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  if (const auto status = begins(__func__)) return *status;
  return take(here().pinned, memory, __func__);
}
cudaError_t cudaHostGetDevicePointer(void** there, void* memory, unsigned /*flags*/) {
  if (const auto status = begins(__func__)) return *status;
  *there = memory;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  *memory = memory_of_host(bytes);
  if (*memory == nullptr) return failing(cudaErrorMemoryAllocation);
  const std::lock_guard guard(here().mutex);
  here().allocated.add(number_of(*memory), bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (const auto status = begins(__func__)) return *status;
  return memory == nullptr ? cudaSuccess : take(here().allocated, memory, __func__);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  if (!is_there(memory, bytes)) return failing(cudaErrorInvalidValue);
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (const auto status = begins(__func__)) return *status;
  *attributes = {};
  const side s = side_of(address, 1);
  attributes->type = s == side::pinned   ? cudaMemoryTypeHost
                     : s == side::device ? cudaMemoryTypeDevice
                                         : cudaMemoryTypeUnregistered;
  attributes->device = s == side::device ? owner_of(address) : 0;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  return copy(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t on) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(on);
  return s == nullptr ? failing(cudaErrorInvalidResourceHandle) : copy(to, from, bytes, kind, s);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t on) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(on);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  if (owner_of(to) != to_device || owner_of(from) != from_device)
    return failing(cudaErrorInvalidValue);
  return copy(to, from, bytes, cudaMemcpyDefault, s, true);
}
/// A symbol is the address of its value.
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t,
                                 cudaMemcpyKind) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  std::memcpy(to, symbol, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t,
                               cudaMemcpyKind) {
  if (const auto status = begins(__func__)) return *status;
  wait_for_idle_device(__func__);
  std::memcpy(const_cast<void*>(symbol), from, bytes);
  return cudaSuccess;
}

// ---- streams, events, kernels

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(made, flags);
}
cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return cudaStreamCreateWithFlags(made, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned /*flags*/) {
  if (const auto status = begins(__func__)) return *status;
  auto* const s = new stream(device_in_use());
  const std::lock_guard guard(here().mutex);
  here().streams.insert(s);
  *made = reinterpret_cast<cudaStream_t>(s);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(handle);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard guard(here().mutex);
    here().streams.erase(s);
  }
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  if (const auto status = begins(__func__)) return *status;
  const stream* const s = find(handle);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  return s->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(handle);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  s->wait();
  return static_cast<cudaError_t>(here().context_error.load());
}
/// Supports only captures that restrict other threads; does not record.
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(handle);
  if (s == nullptr || mode != cudaStreamCaptureModeGlobal) return failing(cudaErrorInvalidValue);
  const std::lock_guard guard(here().mutex);
  here().captures[s] = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  if (const auto status = begins(__func__)) return *status;
  *graph = nullptr;
  const std::lock_guard guard(here().mutex);
  const auto found = here().captures.extract(reinterpret_cast<stream*>(handle));
  if (found.empty()) return failing(cudaErrorIllegalState);
  return found.mapped() ? failing(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (const auto failed = begins(__func__)) return *failed;
  stream* const s = find(handle);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  const std::lock_guard guard(here().mutex);
  *status =
      here().captures.contains(s) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (const auto status = begins(__func__)) return *status;
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* name, cudaFuncAttribute /*what*/, int /*value*/) {
  if (const auto status = begins(__func__)) return *status;
  return kernels().contains(name) ? cudaSuccess : failing(cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned /*flags*/) {
  if (const auto status = begins(__func__)) return *status;
  auto* const e = new event{device_in_use(), nullptr, 0};
  const std::lock_guard guard(here().mutex);
  here().events.insert(e);
  *made = reinterpret_cast<cudaEvent_t>(e);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  if (const auto status = begins(__func__)) return *status;
  event* const e = find(handle);
  if (e == nullptr) return failing(cudaErrorInvalidResourceHandle);
  const std::lock_guard guard(here().mutex);
  here().events.erase(e);
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  if (const auto status = begins(__func__)) return *status;
  event* const e = find(handle);
  stream* const s = find(on);
  if (e == nullptr || s == nullptr || e->device != s->device())
    return failing(cudaErrorInvalidResourceHandle);
  e->of = s->done();
  e->ticket = s->added();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  if (const auto status = begins(__func__)) return *status;
  const event* const e = find(handle);
  if (e == nullptr) return failing(cudaErrorInvalidResourceHandle);
  if (e->of != nullptr) e->of->wait_for(e->ticket);
  return static_cast<cudaError_t>(here().context_error.load());
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  if (const auto status = begins(__func__)) return *status;
  const event* const e = find(handle);
  if (e == nullptr) return failing(cudaErrorInvalidResourceHandle);
  return e->of == nullptr || e->of->is_at(e->ticket) ? cudaSuccess : cudaErrorNotReady;
}
/// Waits for the work that the event has recorded by now, even if the event is destroyed.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t awaited, unsigned /*flags*/) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(handle);
  const event* const e = find(awaited);
  if (s == nullptr || e == nullptr) return failing(cudaErrorInvalidResourceHandle);
  if (e->of != nullptr) s->add([of = e->of, ticket = e->ticket] { of->wait_for(ticket); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t on, cudaHostFn_t run, void* data) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(on);
  if (s == nullptr) return failing(cudaErrorInvalidResourceHandle);
  s->add([run, data] {
    if (here().context_error.load() == cudaSuccess) run(data);
  });
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* name) {
  if (const auto status = begins(__func__)) return *status;
  if (!kernels().contains(name)) return failing(cudaErrorInvalidDeviceFunction);
  load_kernel(__func__, name, device_in_use());
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* name, dim3 /*grid*/, dim3 /*block*/, void** arguments,
                             std::size_t /*shared*/, cudaStream_t on) {
  if (const auto status = begins(__func__)) return *status;
  stream* const s = find(on);
  // A kernel goes to the selected device, to which the stream must belong.
  if (s == nullptr || s->device() != device_in_use())
    return failing(cudaErrorInvalidResourceHandle);
  const auto found = kernels().find(name);
  if (found == kernels().end()) return failing(cudaErrorInvalidDeviceFunction);
  load_kernel(__func__, name, s->device());
  const auto* const argument = static_cast<const std::byte*>(arguments[0]);
  auto copied =
      std::make_shared<std::vector<std::byte>>(argument, argument + found->second.argument_bytes);
  s->add_kernel([run = found->second.run, copied] { run(copied->data()); });
  return cudaSuccess;
}

} // extern "C"
