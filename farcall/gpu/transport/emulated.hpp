// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>
#include <farcall/gpu/transport/thread_team.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace farcall::cuda {

/// Code of a worker: `run` is called by each thread of the worker's team. The threads share a state
/// of `state_bytes` bytes.
struct thread_executor {
  std::size_t state_bytes = 0;
  void (*run)(thread_team& team, const worker_setup& setup, void* state) = nullptr;
};

/// Faults that tests make an emulated device have. Tests may change them while the device works.
struct emulated_faults {
  std::atomic<std::int64_t> start_delay_us{0}; ///< before a worker runs
  std::atomic<std::int64_t> copy_delay_us{0};
  /// Delay before each launch in the streams with an even number, so that later launches of other
  /// streams overtake it.
  std::atomic<std::int64_t> launch_delay_us{0};
  /// True to make the words of a worker's message visible one by one, from the last word to the
  /// first.
  std::atomic<bool> is_scattering{false};
  std::atomic<int> starts_that_fail{0}; ///< how many of the next starts fail
  std::atomic<int> copies_that_fail{0};
};

struct emulated_options {
  thread_executor executor;
  std::uint32_t workers = 1;
  std::uint32_t threads = 1; ///< of each worker's team
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  /// Processor that all workers use. If not set, workers use the processors that this process may
  /// use when the device is made. In both cases the affinity of the thread that later starts a
  /// worker has no effect.
  std::optional<unsigned> cpu;
  std::shared_ptr<emulated_faults> faults; ///< may be null
};

/// Makes a device whose workers are threads of this process, and whose memory is this machine's.
/// Throws error if this process may not use the named processor.
[[nodiscard]] std::unique_ptr<device_api> make_emulated_device(const emulated_options& o);

} // namespace farcall::cuda
