// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/gpu/transport/launch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall::cuda {

/// Description of a device.
struct device_description {
  std::string name;
  std::string architecture; ///< "sm_90", "emulated"
  std::string driver;       ///< "CUDA 13.0", and other version numbers
  std::string link;         ///< "PCIe 5.0 x16"; empty if unknown
  std::uint64_t memory_bytes = 0;
  std::uint32_t processors = 0;
};

/// Handle of a device's memory, by which other processes, and other libraries of this process, can
/// map it: cuMemImportFromShareableHandle() takes the descriptor. Used by one thread at a time.
struct memory_handle {
  /// Descriptor that keeps the memory allocated, even after the end of the buffer and the job.
  unique_fd file;
  std::uint64_t file_bytes = 0; ///< size of the whole memory piece, which is mapped at once
  std::uint64_t offset = 0;     ///< offset of the exported part in the piece
  std::uint64_t bytes = 0;      ///< of the part
};

/// Operations of a device that resident workers need. A GPU implements them by CUDA's runtime, and
/// the emulation by threads. Several threads may call them at once. They throw error with the
/// device's own text. Functions marked "waits" may wait until the device is idle; they are called
/// before the first worker starts, or when all workers have left.
class device_api {
 public:
  device_api() = default;
  device_api(const device_api&) = delete;
  device_api& operator=(const device_api&) = delete;
  virtual ~device_api() = default;

  [[nodiscard]] virtual device_description describe() const = 0;

  /// Allocates zeroed memory of the host, which the device accesses directly at the same address.
  /// Waits. The memory lives as long as this object.
  [[nodiscard]] virtual std::byte* share(std::uint64_t bytes) = 0;
  /// Copies an array of numbers into the device's memory. Waits. The memory lives as long as this
  /// object.
  [[nodiscard]] virtual const std::uint64_t* upload(std::span<const std::uint64_t> numbers) = 0;

  /// Range of addresses that are reserved for the device's own memory. At first no memory is mapped
  /// there.
  struct range {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] virtual range reserve(std::uint64_t at_most) = 0;
  /// Maps memory at addresses that reserve() has returned. Waits. Throws out_of_memory with the
  /// sizes in its text.
  virtual void provide(std::uint64_t address, std::uint64_t bytes) = 0;

  /// True if all peers, which are the other devices of this process, can use this device's memory
  /// directly. provide() opens the memory that it maps to the peers that exist then.
  /// open_to_peers() opens memory that was mapped earlier to peers that were added later; it waits.
  [[nodiscard]] virtual bool is_open_to_peers() { return true; }
  virtual void open_to_peers() {}

  /// Exports memory for other processes or libraries. Memory must be mapped in the whole range.
  /// Returns a handle for each piece that provide() has mapped there. Throws error if the device
  /// has no such handles.
  [[nodiscard]] virtual std::vector<memory_handle> export_memory(std::uint64_t /*address*/,
                                                                 std::uint64_t /*bytes*/) {
    throw error("memory of this device cannot be exported");
  }

  /// Starts worker `index`, which must not be running. Does not wait.
  virtual void start(std::uint32_t index, const worker_setup& setup) = 0;
  /// Returns the reason why the device has failed, or nothing if it has not. Does not wait.
  [[nodiscard]] virtual std::optional<std::string> failure() = 0;
  /// Waits for the end of worker `index`, which must have reported that it is leaving.
  virtual void join(std::uint32_t index) = 0;
  /// Gives the device up, because a worker does not leave. The device is not waited for any more,
  /// and its memory is not released before the process ends.
  virtual void abandon() noexcept = 0;

  /// Describes in one line which streams or threads of the device are busy. Returns an empty text
  /// if this is unknown. May wait as long as CUDA does.
  [[nodiscard]] virtual std::string activity() { return {}; }

  /// Runs `run`, which launches a kernel, in the stream with this index; there are launch_streams
  /// streams. The kernels of a stream run in order. Launches of other kinds run as launch_kind
  /// describes. Does not wait. Throws error.
  virtual void launch(std::uint32_t stream, launcher run, const launch_plan& plan) = 0;
  /// Returns CUDA's handle of the stream with this index. Returns null without CUDA.
  [[nodiscard]] virtual void* stream(std::uint32_t index) = 0;

  /// Returns the smallest size of a copy that is faster by copy() than by messages to a worker.
  [[nodiscard]] virtual std::uint64_t copies_from() const noexcept = 0;
  /// Copies between memory of the host and of the device, in either direction. The copy is complete
  /// when the call returns.
  virtual void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) = 0;
};

} // namespace farcall::cuda
