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

/// What a worker's threads run, and the memory that they share meanwhile.
struct thread_executor {
  std::size_t state_bytes = 0;
  void (*run)(thread_team& team, const worker_setup& setup, void* state) = nullptr;
};

/// What an emulated device does wrong, for tests. May be changed while it works.
struct emulated_faults {
  std::atomic<std::int64_t> start_delay_us{0}; ///< before a worker runs
  std::atomic<std::int64_t> copy_delay_us{0};
  /// Before each launch on every other stream, so that streams overtake each other.
  std::atomic<std::int64_t> launch_delay_us{0};
  /// The words of a worker's message become visible one by one, the last ones first.
  std::atomic<bool> is_scattering{false};
  std::atomic<int> starts_that_fail{0}; ///< from now on, so many
  std::atomic<int> copies_that_fail{0};
};

struct emulated_options {
  thread_executor executor;
  std::uint32_t workers = 1;
  std::uint32_t threads = 1; ///< of each worker's team
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  /// Processor of all workers; else those that this process may use when the device is made,
  /// whatever the thread is bound to that later starts a worker.
  std::optional<unsigned> cpu;
  std::shared_ptr<emulated_faults> faults; ///< may be null
};

/// A device whose workers are threads of this process, and whose memory is this machine's. Throws
/// error when the processor named is none that this process may use.
[[nodiscard]] std::unique_ptr<device_api> make_emulated_device(const emulated_options& o);

} // namespace farcall::cuda
