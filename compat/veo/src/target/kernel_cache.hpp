#pragma once

#include "kernel.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace farcall::veo {

/// The kernels of this process by address, each with its signature looked up once. Any thread.
class kernel_cache {
 public:
  kernel_cache();
  ~kernel_cache();
  kernel_cache(const kernel_cache&) = delete;
  kernel_cache& operator=(const kernel_cache&) = delete;

  /// What is returned lives as long as the cache. Without a lock or a look-up if this thread has
  /// asked for the address lately.
  const kernel& at(std::uint64_t address);

  /// For after a dlclose, before the next dlopen: other code may come to lie at the same addresses.
  /// All kernels, because a library takes others along.
  void forget() noexcept;

 private:
  const kernel& find(std::uint64_t address);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<const kernel>> kernels_;
  // A thread may be in the middle of a call: what was forgotten is kept, and used again if the same
  // library comes back to the same place.
  std::unordered_multimap<std::uint64_t, std::unique_ptr<const kernel>> forgotten_;
  // Unlike that of any other cache, and changed by forget(): says whether what a thread remembers
  // is of now and of here.
  std::atomic<std::uint64_t> generation_;
};

} // namespace farcall::veo
