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

/// Code that runs a callable on devices: one static object for each callable and kind of device.
/// They find together in a list before main(), as entries do.
class device_code {
 public:
  /// Who runs the code, and as what.
  enum class kind : std::uint8_t {
    threads, ///< the emulated device
    gpu,
    launch_on_threads, ///< launches a kernel; code of the host
    launch_on_gpu,
  };
  /// Address of the code, as a device's table has it; asked for when a job is made.
  using address_function = std::uint64_t (*)();

  /// `kernel` is that of a launch on a GPU.
  device_code(kind k, const entry& what, address_function address,
              const void* kernel = nullptr) noexcept
      : kind_(k), what_(&what), address_(address), kernel_(kernel), next_(first_) {
    first_ = this;
  }
  device_code(const device_code&) = delete;
  device_code& operator=(const device_code&) = delete;

  /// Calls `tell` for all code of that kind.
  static void for_each(kind k, const std::function<void(const entry&, address_function)>& tell);
  /// By row of the entry table: the address, or 0 where there is no code of that kind.
  [[nodiscard]] static std::vector<std::uint64_t> addresses(kind k);
  /// By row, whether there is code of that kind. Asks no device.
  [[nodiscard]] static std::vector<bool> existing(kind k);
  /// The kernels of that kind of code.
  [[nodiscard]] static std::vector<const void*> kernels(kind k);

 private:
  static constinit device_code* first_;

  kind kind_;
  const entry* what_;
  address_function address_;
  const void* kernel_;
  device_code* next_;
};

/// Where a GPU finds the key of a function of the host that its code calls: keys are the host's.
class gpu_key {
 public:
  /// `symbol` is that of a std::uint32_t in device code.
  gpu_key(const entry& what, const void* symbol) noexcept
      : what_(&what), symbol_(symbol), next_(first_) {
    first_ = this;
  }
  gpu_key(const gpu_key&) = delete;
  gpu_key& operator=(const gpu_key&) = delete;

  /// Calls `tell` for each of them.
  static void for_each(const std::function<void(const entry&, const void* symbol)>& tell);

 private:
  static constinit gpu_key* first_;

  const entry* what_;
  const void* symbol_;
  gpu_key* next_;
};

} // namespace farcall
