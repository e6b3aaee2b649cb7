// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace farcall::veo {

/// Kernels of this process, found by their address. The signature of each kernel is looked up once.
/// Thread-safe.
class kernel_cache {
 public:
  kernel_cache();
  ~kernel_cache();
  kernel_cache(const kernel_cache&) = delete;
  kernel_cache& operator=(const kernel_cache&) = delete;

  /// Returns the kernel at the address. The reference is valid as long as the cache exists. Takes
  /// no lock if this thread has used the same address recently.
  const kernel& at(std::uint64_t address);

  /// Removes all kernels from the cache, because a single dlclose() may unload several libraries.
  /// Call it after each dlclose() and before the next dlopen(), because dlopen() may load other
  /// code at the same addresses.
  void forget() noexcept;

 private:
  const kernel& find(std::uint64_t address);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<const kernel>> kernels_;
  // Kernels that forget() has removed. They stay alive, because a thread may still be calling one.
  // A kernel is reused if the same library is loaded at the same address again.
  std::unordered_multimap<std::uint64_t, std::unique_ptr<const kernel>> forgotten_;
  // Number that tells threads whether their remembered kernels are still valid. Each thread stores
  // this number together with the kernels that it has used recently, and uses them only while the
  // number is unchanged. forget() changes the number. The number differs from the numbers of all
  // other caches, so that a thread does not take kernels of another cache.
  std::atomic<std::uint64_t> generation_;
};

} // namespace farcall::veo
