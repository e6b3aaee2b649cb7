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

/// A GPU as a node, reached from the process that owns it.
///
/// Resident workers on the device poll slots in pinned memory of the host, so a call needs neither
/// a launch nor a synchronisation. The idea is that of HAM's protocol by DMA, where the card polled
/// the host's memory in the same way.
namespace farcall::cuda {

/// What of the program a device runs.
struct device_program {
  std::vector<std::uint64_t> handlers; ///< addresses on the device, by key
  std::vector<bool> launches;          ///< by key: what `launch_of` finds
  /// See launching::find; null where the program has no kernels.
  std::function<launcher(const std::byte* record, std::uint32_t bytes, launch_plan& plan)>
      launch_of;
  std::string how_to_get_code; ///< for whoever misses some: the end of a sentence
};

struct options {
  node_id self = 0; ///< the process that owns the device
  node_id node = 1; ///< the device
  std::uint32_t ring_bytes = 0;
  std::span<doorbell> doorbells; ///< of this process; outlive the transport
  std::unique_ptr<device_api> device;
  std::uint32_t workers = 1;
  std::uint32_t calls_to_host = 0; ///< lanes from the device; 0: one for each worker
  std::chrono::nanoseconds idle{std::chrono::milliseconds(5)};     ///< then a worker leaves
  std::chrono::nanoseconds call_timeout{std::chrono::seconds(30)}; ///< for the host's replies
  device_program program;
  bool try_out = true;            ///< start the workers once before anything else
  std::uint64_t memory_bytes = 0; ///< most that allocate() gives; 0: what the device has
};

class cuda_transport : public hosted_node {
 public:
  [[nodiscard]] virtual device_description describe_device() const = 0;

  /// Waits until no worker runs on the device. False when one has not left until `deadline`. Throws
  /// node_failed.
  [[nodiscard]] virtual bool quiesce(time_point deadline) = 0;
  /// Workers stay as long as the job, or, as at first, until they are idle.
  virtual void pin_resident(bool stay) = 0;
  /// Workers were started so many times.
  [[nodiscard]] virtual std::uint64_t starts() const noexcept = 0;
  /// CUDA's stream on which launches of this opened lane run; null where there is no CUDA.
  [[nodiscard]] virtual void* stream_of(const endpoint& opened) noexcept = 0;
  /// See device_api. Throws error for memory that was not allocated on the device.
  [[nodiscard]] virtual std::vector<memory_handle> export_memory(std::uint64_t address,
                                                                 std::uint64_t bytes) = 0;
  /// The device is given up: what runs on it is not waited for.
  virtual void give_up(const std::string& why) noexcept = 0;
  /// Says line by line what workers and lanes are at, for whoever has waited in vain. Reads memory
  /// of the host alone and waits for nothing, until it asks CUDA for its streams at the end, which
  /// may take as long as CUDA does.
  virtual void diagnose(const std::function<void(const std::string& line)>& say) = 0;

  /// Blocks of the lanes, for the device's end: those that the host opens, then the others.
  [[nodiscard]] virtual std::vector<lane_memory*> lanes_down() = 0;
  [[nodiscard]] virtual std::vector<lane_memory*> lanes_up() = 0;
};

/// Throws error with the device's text when it cannot be used.
[[nodiscard]] std::unique_ptr<cuda_transport> make(options o);

} // namespace farcall::cuda
