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

/// What is known about a device.
struct device_description {
  std::string name;
  std::string architecture; ///< "sm_90", "emulated"
  std::string driver;       ///< "CUDA 13.0", and what else tells versions apart
  std::string link;         ///< "PCIe 5.0 x16"; empty where it cannot be told
  std::uint64_t memory_bytes = 0;
  std::uint32_t processors = 0;
};

/// Memory of a device as other processes, and other libraries of this one, can map it:
/// cuMemImportFromShareableHandle() takes the descriptor. Used by one thread at a time.
struct memory_handle {
  unique_fd file;               ///< keeps the memory, whatever becomes of the buffer and the job
  std::uint64_t file_bytes = 0; ///< what can only be mapped as a whole
  std::uint64_t offset = 0;     ///< where in it the part begins
  std::uint64_t bytes = 0;      ///< of the part
};

/// The little of a device that resident workers need: CUDA's runtime for a GPU, threads for the
/// emulation. Members may be called by several threads at once, and throw error with the device's
/// own text. What may wait for the device to become idle is marked "waits"; it is called before the
/// first worker starts, or when all have left.
class device_api {
 public:
  device_api() = default;
  device_api(const device_api&) = delete;
  device_api& operator=(const device_api&) = delete;
  virtual ~device_api() = default;

  [[nodiscard]] virtual device_description describe() const = 0;

  /// Zeroed memory of the host that the device uses in place, under the same address. Waits. Lives
  /// as long as this object.
  [[nodiscard]] virtual std::byte* share(std::uint64_t bytes) = 0;
  /// Numbers in the device's memory. Waits. Lives as long as this object.
  [[nodiscard]] virtual const std::uint64_t* upload(std::span<const std::uint64_t> numbers) = 0;

  /// Addresses for the device's own memory, of which none is there yet.
  struct range {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] virtual range reserve(std::uint64_t at_most) = 0;
  /// Sees to it that there is memory behind these addresses of reserve(). Waits. Throws
  /// out_of_memory naming sizes.
  virtual void provide(std::uint64_t address, std::uint64_t bytes) = 0;

  /// Peers: other devices of this process that can use this one's memory in place. They can use
  /// what provide() gives while they are there; what was there before them, when open_to_peers()
  /// has returned, which waits.
  [[nodiscard]] virtual bool is_open_to_peers() { return true; }
  virtual void open_to_peers() {}

  /// For others to map: as many handles as there are pieces of provide() behind these addresses,
  /// all of which have memory. Throws error where the device has no such handles.
  [[nodiscard]] virtual std::vector<memory_handle> export_memory(std::uint64_t /*address*/,
                                                                 std::uint64_t /*bytes*/) {
    throw error("memory of this device cannot be exported");
  }

  /// Starts worker `index`, which is not running. Does not wait.
  virtual void start(std::uint32_t index, const worker_setup& setup) = 0;
  /// Why the device takes no more part, or nothing while it is well. Does not wait.
  [[nodiscard]] virtual std::optional<std::string> failure() = 0;
  /// Waits until worker `index`, which has said that it has left, has ended.
  virtual void join(std::uint32_t index) = 0;
  /// A worker does not leave: nothing of this device is waited for any more, nor given back before
  /// the process ends.
  virtual void abandon() noexcept = 0;

  /// What runs there, in one line; empty where nothing is known. May wait as long as CUDA does.
  [[nodiscard]] virtual std::string activity() { return {}; }

  /// Launches on one of launch_streams streams, in order. Does not wait. Throws error.
  virtual void launch(std::uint32_t stream, launcher run, const launch_plan& plan) = 0;
  /// CUDA's handle of the stream; null where there is no CUDA.
  [[nodiscard]] virtual void* stream(std::uint32_t index) = 0;

  /// Copies of fewer bytes are quicker as messages to a worker.
  [[nodiscard]] virtual std::uint64_t copies_from() const noexcept = 0;
  /// Copies between memory of the host and of the device, whichever it is; done on return.
  virtual void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) = 0;
};

} // namespace farcall::cuda
