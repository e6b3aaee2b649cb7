#pragma once

#include <farcall/base/error.hpp>

#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

/// How farcall calls CUDA: errors become exceptions, functions of the driver are found by name, and
/// what the calling thread has selected stays as it was.
namespace farcall::cuda {

[[nodiscard]] std::string text_of(cudaError_t status);

/// Throws error that begins with `what`.
void check(cudaError_t status, const char* what);
void check_driver(CUresult status, const char* what);

/// An error of the program's use of CUDA, which says nothing about the device.
[[nodiscard]] bool is_of_capture(cudaError_t status);

/// A function of the driver that the runtime has no name for, or null.
[[nodiscard]] void* find_driver_function(const char* name);

/// The same; throws error when the driver has none. `Function` is that of CUDA 12.
template <class Function>
[[nodiscard]] Function driver_function(const char* name) {
  void* const found = find_driver_function(name);
  if (found == nullptr) throw error(std::string("the driver has no ") + name + "; it is too old");
  return reinterpret_cast<Function>(found);
}

/// Whether a device has what the driver asks for by a number. What the driver does not know, no
/// device has. Throws error.
[[nodiscard]] bool has_attribute(int device, CUdevice_attribute what);

/// The context of a device that the runtime uses, too. Kept until the process ends or the device is
/// reset, as the runtime keeps it. Throws error.
[[nodiscard]] CUcontext context_of(int device);

/// Selects a device for the calling thread, which finds the one again that it had. Not by
/// cudaSetDevice(), which would make a context on that one if the thread has not used it yet.
///
/// While a thread of the program captures a stream, CUDA refuses others what the capture would not
/// see, and ends the capture. What farcall does is no part of any, so nothing of it is refused.
/// Throws error.
class device_scope {
 public:
  explicit device_scope(CUcontext context);
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope();

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; ///< within, the thread's own
  bool is_uncaptured_ = false;
};

} // namespace farcall::cuda
