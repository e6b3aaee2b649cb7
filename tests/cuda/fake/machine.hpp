// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cuda.hpp"

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

/// State and helpers that the fake functions share.
namespace farcall::fake_cuda {

struct fault {
  std::int64_t call = 0;
  cudaError_t status = cudaSuccess;
};

/// Number of a stream's completed tasks. Outlives the stream if a thread waits for it.
class progress {
 public:
  void one_more() {
    const std::lock_guard guard(mutex_);
    ++done_;
    changed_.notify_all();
  }
  [[nodiscard]] bool is_at(std::uint64_t ticket) const {
    const std::lock_guard guard(mutex_);
    return done_ >= ticket;
  }
  void wait_for(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ = 0;
};

class stream;
struct event {
  int device = 0;
  std::shared_ptr<progress> of; ///< of the stream that it was recorded in, or null
  std::uint64_t ticket = 0;
};

/// Blocks by their first address.
class blocks {
 public:
  void add(std::uint64_t address, std::uint64_t bytes) { all_[address] = bytes; }
  [[nodiscard]] bool remove(std::uint64_t address) { return all_.erase(address) != 0; }
  [[nodiscard]] bool hold(std::uint64_t address, std::uint64_t bytes) const {
    auto next = all_.upper_bound(address);
    std::uint64_t at = address;
    // Adjacent blocks may hold it together.
    while (next != all_.begin()) {
      const auto& [start, length] = *std::prev(next);
      if (at < start || at >= start + length) return false;
      at = start + length;
      if (address + bytes <= at) return true;
      next = all_.upper_bound(at);
    }
    return false;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [start, length] : all_)
      sum += length;
    return sum;
  }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& all() const { return all_; }
  void clear() { all_.clear(); }

 private:
  std::map<std::uint64_t, std::uint64_t> all_;
};

/// An allocation of cuMemCreate: a memory file, so that it can be exported.
struct allocation {
  std::uint64_t bytes = 0;
  unique_fd file;
  CUmemAllocationProp properties{};
};

/// State of the fake except the streams, whose threads need it.
struct machine {
  std::mutex mutex;
  std::int64_t calls = 0;
  fault once;
  std::map<std::string, cudaError_t> always;
  std::string failed;
  std::set<std::string> waited;
  std::int64_t max_delay_us = 0;
  int devices = 1;
  std::uint64_t memory = std::uint64_t{2} << 30;
  blocks pinned;                            ///< by cudaHostAlloc
  blocks allocated;                         ///< by cudaMalloc
  blocks reserved;                          ///< addresses
  std::map<std::uint64_t, int> reserved_by; ///< device, by the first address
  blocks mapped;                            ///< reserved addresses with memory
  std::map<int, blocks> accessible;         ///< mapped parts, by the device that can use them
  bool are_peers = false;                   ///< whether devices can use each other's memory
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<allocation>> created;
  std::map<std::uint64_t, std::shared_ptr<allocation>> mapped_to; ///< by address
  std::map<CUdevice_attribute, int> attributes;                   ///< of every device
  std::uint64_t next_handle = 1;
  std::set<stream*> streams;
  std::set<event*> events;
  /// Captures in the global mode, and whether a call has invalidated each.
  std::map<stream*, bool> captures;
  std::set<int> with_context; ///< devices; a context stays until the device is reset
  std::set<std::pair<const void*, int>> loaded; ///< kernels, with the device
  std::atomic<int> context_error{cudaSuccess};  ///< of a kernel; sticks
  std::atomic<int> kernels{0};                  ///< number that have not ended
};

[[nodiscard]] machine& here();

struct kernel {
  std::size_t argument_bytes;
  std::function<void(const void*)> run;
};
[[nodiscard]] std::map<const void*, kernel>& kernels();

/// A thread that runs its tasks in order.
class stream {
 public:
  explicit stream(int device);
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  /// Waits until all tasks are done.
  ~stream();

  [[nodiscard]] int device() const { return device_; }
  void add(std::function<void()> task);
  /// Adds a kernel; an exception of `run` is a fault.
  void add_kernel(std::function<void()> run);
  /// Returns the number of tasks added so far.
  [[nodiscard]] std::uint64_t added() const;
  [[nodiscard]] const std::shared_ptr<progress>& done() const { return done_; }
  [[nodiscard]] bool is_idle() const { return done_->is_at(added()); }
  void wait() { done_->wait_for(added()); }

 private:
  void work();

  int device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t added_ = 0;
  std::shared_ptr<progress> done_ = std::make_shared<progress>();
  bool is_ending_ = false;
  std::thread thread_;
};

inline thread_local int current_device = 0;
/// Devices whose contexts the thread has pushed; the last one is current.
inline thread_local std::vector<int> pushed_contexts;
[[nodiscard]] inline int device_in_use() {
  return pushed_contexts.empty() ? current_device : pushed_contexts.back();
}
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

/// Returns `status`, and makes it CUDA's last error.
cudaError_t failing(cudaError_t status);
/// Called first by every function. Returns the status with which the function must fail, if any.
[[nodiscard]] std::optional<cudaError_t> begins(const char* function);
/// Waits like CUDA's functions that may need the device for themselves.
void wait_for_idle_device(const char* function);
/// Loads a kernel when it is first queried or launched, for which the device must be idle.
void load_kernel(const char* function, const void* name, int device);
/// Frees everything, like the end of a process, or of a context.
void free_everything();

/// Return null for an invalid handle.
[[nodiscard]] stream* find(cudaStream_t handle);
[[nodiscard]] event* find(cudaEvent_t handle);

[[nodiscard]] inline std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// Returns a function of the driver; null if the fake has none of that name.
[[nodiscard]] void* driver_function(const std::string& name);

} // namespace farcall::fake_cuda
