// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/hosted_node.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Transport for a GPU that is a node, in the process that owns the GPU.
///
/// Resident workers on the device poll slots in pinned memory of the host, so a call needs neither
/// a kernel launch nor a synchronisation with CUDA. The idea is from HAM's protocol by DMA, in
/// which the accelerator card polled the host's memory.
namespace farcall::cuda {

/// The part of the program that a device runs.
struct device_program {
  std::vector<std::uint64_t> handlers; ///< addresses of the handlers on the device, indexed by key
  /// Indexed by key; true if the key's function is launched instead of called.
  std::vector<bool> launches;
  /// Function that finds the launcher of a request; see launching::find. Null if the program has no
  /// kernels.
  std::function<launcher(const std::byte* record, std::uint32_t bytes, launch_plan& plan)>
      launch_of;
  /// Last part of the error text for a request without a handler. It tells the user how to get code
  /// for the device.
  std::string how_to_get_code;
};

struct options {
  node_id self = 0; ///< process that owns the device
  node_id node = 1; ///< the device
  std::uint32_t ring_bytes = 0;
  std::span<doorbell> doorbells; ///< doorbells of this process; they must outlive the transport
  std::unique_ptr<device_api> device;
  std::uint32_t workers = 1;
  /// Number of lanes from the device to the host; 0 for one lane per worker.
  std::uint32_t calls_to_host = 0;
  std::chrono::nanoseconds idle{std::chrono::milliseconds(5)}; ///< until idle workers leave
  /// Timeout of calls from the device to the host.
  std::chrono::nanoseconds call_timeout{std::chrono::seconds(30)};
  device_program program;
  bool try_out = true; ///< true to start each worker once before the first call
  /// Maximum number of bytes that allocate() may use; 0 for all of the device's memory.
  std::uint64_t memory_bytes = 0;
};

class cuda_transport : public hosted_node {
 public:
  [[nodiscard]] virtual device_description describe_device() const = 0;

  /// Waits until no worker runs on the device. Returns false if a worker still runs at `deadline`.
  /// Throws node_failed.
  [[nodiscard]] virtual bool quiesce(time_point deadline) = 0;
  /// If `stay` is true, makes workers run as long as the job. Otherwise workers leave when they are
  /// idle, which is the default, and workers that run now are made to leave once.
  virtual void pin_resident(bool stay) = 0;
  /// Returns how often workers were started.
  [[nodiscard]] virtual std::uint64_t starts() const noexcept = 0;
  /// Returns CUDA's stream for the launches of this lane. Returns null without CUDA.
  [[nodiscard]] virtual void* stream_of(const endpoint& opened) noexcept = 0;
  /// See device_api::export_memory(). Throws error for memory that was not allocated on the device.
  [[nodiscard]] virtual std::vector<memory_handle> export_memory(std::uint64_t address,
                                                                 std::uint64_t bytes) = 0;
  /// Gives the device up. Kernels that still run on it are not waited for.
  virtual void give_up(const std::string& why) noexcept = 0;
  /// Reports the state of workers and lanes, one line per call of `say`. Meant for a caller whose
  /// wait has timed out. Reads only the host's memory and does not wait, except for CUDA's report
  /// on its streams, which comes last.
  virtual void diagnose(const std::function<void(const std::string& line)>& say) = 0;

  /// Both functions return the shared memory of lanes, for tests of the device's end of a lane.
  /// lanes_down() returns it for the lanes that the host opens, and lanes_up() for the lanes that
  /// the device opens.
  [[nodiscard]] virtual std::vector<lane_memory*> lanes_down() = 0;
  [[nodiscard]] virtual std::vector<lane_memory*> lanes_up() = 0;
};

/// Makes the transport for a device. Throws error with the device's text if the device cannot be
/// used.
[[nodiscard]] std::unique_ptr<cuda_transport> make(options o);

} // namespace farcall::cuda
