// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/entry.hpp>
#include <farcall/gpu/request.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#if defined(__NVCC__) && !defined(__CUDACC_RDC__)
#error "farcall: compile code for GPUs with -rdc=true (CUDA_SEPARABLE_COMPILATION in CMake)"
#endif

namespace farcall {

/// Registration of code that runs a callable on devices. There is one static object for each
/// callable and each kind of code. Their constructors link the objects into a list before main()
/// begins, like the entries of the function registry.
class device_code {
 public:
  /// Kind of the code: for GPUs or emulated devices, and for calls or launches.
  enum class kind : std::uint8_t {
    threads, ///< handler that runs on an emulated device
    gpu,
    launch_on_threads, ///< function of the host that launches a kernel on an emulated device
    launch_on_gpu,
  };
  /// Type of a function that returns the code's address as a number. The host calls it when a job
  /// is made, and stores the number in its table of launchers or in the device's table of handlers.
  using address_function = std::uint64_t (*)();

  /// `kernel` is the kernel of a launch on a GPU, and null for other kinds.
  device_code(kind k, const entry& what, address_function address,
              const void* kernel = nullptr) noexcept
      : kind_(k), what_(&what), address_(address), kernel_(kernel), next_(first_) {
    first_ = this;
  }
  device_code(const device_code&) = delete;
  device_code& operator=(const device_code&) = delete;

  /// Calls `tell` for each registered object of kind `k`, with the object's entry of the function
  /// registry and its address function.
  static void for_each(kind k, const std::function<void(const entry&, address_function)>& tell);
  /// Returns one address for each row of the function registry. The address is 0 if the row has no
  /// code of that kind.
  [[nodiscard]] static std::vector<std::uint64_t> addresses(kind k);
  /// Returns one flag for each row of the function registry, which is true if the row has code of
  /// that kind. Does not call the code's address functions, because they would access a device.
  [[nodiscard]] static std::vector<bool> existing(kind k);
  /// Returns the kernels of all code of that kind.
  [[nodiscard]] static std::vector<const void*> kernels(kind k);

 private:
  static constinit device_code* first_;

  kind kind_;
  const entry* what_;
  address_function address_;
  const void* kernel_;
  device_code* next_;
};

/// Variable on a GPU that holds the key of a host function. Device code needs the key to call the
/// function, and only the host knows the keys.
class gpu_key {
 public:
  /// `symbol` is CUDA's symbol of the variable, whose type in device code is std::uint32_t.
  gpu_key(const entry& what, const void* symbol) noexcept
      : what_(&what), symbol_(symbol), next_(first_) {
    first_ = this;
  }
  gpu_key(const gpu_key&) = delete;
  gpu_key& operator=(const gpu_key&) = delete;

  /// Calls `tell` for each variable of the program that holds such a key.
  static void for_each(const std::function<void(const entry&, const void* symbol)>& tell);

 private:
  static constinit gpu_key* first_;

  const entry* what_;
  const void* symbol_;
  gpu_key* next_;
};

} // namespace farcall
