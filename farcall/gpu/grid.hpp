// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/handler.hpp>
#include <farcall/gpu/team.hpp>
#include <farcall/gpu/transport/launch.hpp>
#include <farcall/gpu/transport/thread_team.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace farcall {

/// Shape of a launch: number of blocks, threads per block, and bytes of shared memory per block.
using grid = cuda::launch_shape;

/// A device function that is launched as a separate kernel by `async(node, fc::grid{…}, f, …)`. On
/// ordinary nodes one thread runs the function, as a grid of one thread.
template <class F>
struct on_grid {
  grid shape; ///< of the launch

  /// Calls the function directly, as a grid of one thread.
  template <class... A>
  FARCALL_HOST_DEVICE constexpr void operator()(A&&... a) const {
    F{}(std::forward<A>(a)...);
  }
};

namespace detail {

template <class F, class... A>
struct signature_of<on_grid<F>, A...> : signature_of<F, A...> {};
template <class F>
inline constexpr bool is_fn<on_grid<F>> = true;

template <>
inline constexpr bool is_call_shape<grid> = true;

/// Place of the calling thread in an emulated grid, as this_grid() returns it.
struct grid_place {
  std::uint32_t block = 0;
  std::uint32_t blocks = 1;
};
/// Defined in the library, so that all parts of a program share the variable even if they hide
/// their symbols.
extern constinit thread_local grid_place current_place;

#ifdef __CUDACC__

/// Kernel of a launch on a GPU. Each thread runs f with the arguments of the launch. The last block
/// that ends stores `value` in `*done`, so that the host sees the end of the launch.
template <class F, class... P>
__global__ void launched(std::uint64_t* done, std::uint64_t value, std::uint32_t* blocks_done,
                         P... args) {
  F{}(args...);
  __syncthreads();
  if (threadIdx.x != 0) return;
  // Fence after the barrier and before the counter, so that the last block sees all writes of this
  // block.
  __threadfence();
  if (atomicAdd(blocks_done, 1U) + 1 != gridDim.x) return;
  *blocks_done = 0;
  cuda::release_fence();
  cuda::store_release(done, value);
}

#endif

template <class F, class R, class... P>
struct device_launch {
  static_assert(std::is_void_v<R>,
                "farcall: a function that is launched as a grid returns nothing; write results to "
                "a buffer.");
  using layout = bitwise_layout<on_grid<F>, std::remove_cvref_t<P>...>;
  static_assert(layout::size <= 4000, "farcall: a kernel takes 4000 bytes of arguments at most; "
                                      "pass a remote_span of more.");

  static const char* on_threads(const cuda::launch_plan& plan) {
    cuda::barrier alone(1);
    cuda::thread_team team(alone, nullptr, plan.node, 0, 1);
    cuda::thread_team::set_current(&team);
    for (std::uint32_t block = 0; block < plan.shape.blocks; ++block) {
      current_place = {block, plan.shape.blocks};
      with_values(plan, [](const auto&... values) { F{}(values...); });
    }
    current_place = {};
    cuda::thread_team::set_current(nullptr);
    cuda::store_release(plan.done, plan.done_value);
    return nullptr;
  }

#ifdef __CUDACC__
  static const void* kernel() {
    return reinterpret_cast<const void*>(&launched<F, std::remove_cvref_t<P>...>);
  }

  static const char* on_gpu(const cuda::launch_plan& plan) {
    const char* why = nullptr;
    with_values(plan, [&](std::remove_cvref_t<P>... values) {
      void* arguments[] = {const_cast<std::uint64_t**>(&plan.done),
                           const_cast<std::uint64_t*>(&plan.done_value),
                           const_cast<std::uint32_t**>(&plan.blocks_done), &values...};
      const cudaError_t status =
          cudaLaunchKernel(kernel(), dim3(plan.shape.blocks), dim3(plan.shape.threads), arguments,
                           plan.shape.shared_bytes, static_cast<cudaStream_t>(plan.stream));
      if (status == cudaSuccess) return;
      (void)cudaGetLastError();
      why = cudaGetErrorString(status);
    });
    return why;
  }
#endif

 private:
  template <class Use>
  static void with_values(const cuda::launch_plan& plan, Use&& use) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      // Skip argument 0, because the first argument of a request is the grid's shape.
      std::forward<Use>(use)(
          device_load<std::remove_cvref_t<P>>(plan.arguments + layout::offset(I + 1))...);
    }(std::index_sequence_for<P...>{});
  }
};

template <class Launch, const entry* What>
struct thread_launcher {
  static std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(&Launch::on_threads); }
  static device_code self;
};
template <class Launch, const entry* What>
// NOLINTNEXTLINE(cppcoreguidelines-interfaces-global-init): of the entry only the address is kept
device_code thread_launcher<Launch, What>::self{device_code::kind::launch_on_threads, *What,
                                                &thread_launcher::address};

#ifdef __CUDACC__
/// Returns the launcher's address. The function is defined in link.cpp, which sets up the use of
/// GPUs. A program that only launches kernels calls nothing else of link.cpp, so this call makes
/// the linker include it.
[[nodiscard]] std::uint64_t gpu_launcher_address(cuda::launcher run);

template <class Launch, const entry* What>
struct gpu_launcher {
  static std::uint64_t address() { return gpu_launcher_address(&Launch::on_gpu); }
  static device_code self;
};
template <class Launch, const entry* What>
device_code gpu_launcher<Launch, What>::self{device_code::kind::launch_on_gpu, *What,
                                             &gpu_launcher::address, Launch::kernel()};
#endif

/// Registers the launch code of f in each program that launches f.
template <class F>
struct call_policy<on_grid<F>> {
  template <class R, const entry* What, class... P>
  static void name() {
    static_assert(packs_to_devices<R, std::remove_cvref_t<P>...>,
                  "farcall: a kernel takes what is trivially copyable: numbers, plain structs, "
                  "remote_span.");
    if constexpr (packs_to_devices<R, std::remove_cvref_t<P>...>) {
      using launch = device_launch<F, R, P...>;
      (void)&thread_launcher<launch, What>::self;
#ifdef __CUDACC__
      (void)&gpu_launcher<launch, What>::self;
#endif
    }
  }
};

} // namespace detail

namespace device {

/// Grid of the launch that runs the calling thread. Its functions return the thread's own place
/// among the blocks and threads. On ordinary nodes there is one block of one thread. On the
/// emulated device each block has one thread.
class whole_grid {
 public:
  /// Returns the number of this thread in the whole grid, from 0 to size() - 1.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t rank() const noexcept {
    return std::uint64_t{block()} * this_team().size() + this_team().rank();
  }
  /// Returns the number of threads in all blocks together.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t size() const noexcept {
    return std::uint64_t{blocks()} * this_team().size();
  }
  /// Returns the number of this thread's block, from 0 to blocks() - 1. The block is the thread's
  /// team.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t block() const noexcept {
#ifdef FARCALL_ON_GPU
    return blockIdx.x;
#else
    return farcall::detail::current_place.block;
#endif
  }
  /// Returns the number of blocks of the grid.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t blocks() const noexcept {
#ifdef FARCALL_ON_GPU
    return gridDim.x;
#else
    return farcall::detail::current_place.blocks;
#endif
  }
};

/// Returns the grid that runs the calling function.
[[nodiscard]] FARCALL_HOST_DEVICE inline whole_grid this_grid() noexcept { return {}; }

} // namespace device
} // namespace farcall
