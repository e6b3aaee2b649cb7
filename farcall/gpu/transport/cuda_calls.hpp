// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>

#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

/// Wrappers of CUDA calls. They turn errors into exceptions, find functions of the driver by name,
/// and leave the device selected that the calling thread has selected.
namespace farcall::cuda {

[[nodiscard]] std::string text_of(cudaError_t status);

/// Throws error with `what` and CUDA's text, if `status` is an error.
void check(cudaError_t status, const char* what);
void check_driver(CUresult status, const char* what);

/// True for an error that the program's stream capture causes. Such an error does not mean that the
/// device has failed.
[[nodiscard]] bool is_of_capture(cudaError_t status);

/// Returns the address of a driver function, for functions that CUDA's runtime does not have.
/// Returns null if the driver does not have the function either.
[[nodiscard]] void* find_driver_function(const char* name);

/// Like find_driver_function(), but throws error if the driver does not have the function.
/// `Function` is the function's type in CUDA 12.
template <class Function>
[[nodiscard]] Function driver_function(const char* name) {
  void* const found = find_driver_function(name);
  if (found == nullptr) throw error(std::string("the driver has no ") + name + "; it is too old");
  return reinterpret_cast<Function>(found);
}

/// True if a device has the attribute `what`. False if the driver does not know the attribute.
/// Throws error.
[[nodiscard]] bool has_attribute(int device, CUdevice_attribute what);

/// Returns the context of a device that CUDA's runtime also uses. As with the runtime, the context
/// stays until the process ends or the device is reset. Throws error.
[[nodiscard]] CUcontext context_of(int device);

/// Selects a device for the calling thread until the end of the scope. The end of the scope selects
/// the previous device again. Does not use cudaSetDevice(), which would make a context on the
/// previous device if the thread has not used that device yet.
///
/// Also allows the library's CUDA calls in this scope while another thread of the program captures
/// a stream. Otherwise, CUDA would refuse calls that a capture cannot record, and would end the
/// capture, although these calls belong to no capture. Throws error.
class device_scope {
 public:
  explicit device_scope(CUcontext context);
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope();

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; ///< the thread's, in between
  bool is_uncaptured_ = false;
};

} // namespace farcall::cuda
