// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/cuda_calls.hpp>

namespace farcall::cuda {
namespace {

decltype(&cuCtxPopCurrent) pop() {
  static const auto found = driver_function<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent");
  return found;
}

/// Use the driver's function, because the runtime's function would make a context on the thread's
/// selected device.
decltype(&cuThreadExchangeStreamCaptureMode) exchange_mode() {
  static const auto found = driver_function<decltype(&cuThreadExchangeStreamCaptureMode)>(
      "cuThreadExchangeStreamCaptureMode");
  return found;
}

} // namespace

std::string text_of(cudaError_t status) {
  return std::string("CUDA: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Clear the error, because the runtime would report it again to the next caller.
  (void)cudaGetLastError();
  throw error(std::string(what) + ": " + text_of(status));
}

void check_driver(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) {
    throw error(std::string(what) + ": CUDA error " + std::to_string(static_cast<int>(status)));
  }
}

bool is_of_capture(cudaError_t status) {
  return status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread;
}

void* find_driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned version = 12000;
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result), name);
  return found;
}

bool has_attribute(int device, CUdevice_attribute what) {
  static const auto ask = driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  int value = 0;
  return ask(&value, what, device) == CUDA_SUCCESS && value != 0;
}

CUcontext context_of(int device) {
  static const auto retain =
      driver_function<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  CUcontext context = nullptr;
  check_driver(retain(&context, device), "using the device");
  return context;
}

device_scope::device_scope(CUcontext context) {
  static const auto push = driver_function<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent");
  // Look up the driver's functions now, since the destructor must not fail.
  (void)pop();
  (void)exchange_mode();
  check_driver(push(context), "selecting the device");
  // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): only there the device is selected
  is_uncaptured_ = exchange_mode()(&mode_) == CUDA_SUCCESS;
}

device_scope::~device_scope() {
  if (is_uncaptured_) (void)exchange_mode()(&mode_);
  CUcontext context = nullptr;
  (void)pop()(&context);
}

} // namespace farcall::cuda
