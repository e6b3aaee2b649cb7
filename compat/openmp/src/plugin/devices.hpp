// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.hpp"
#include "sharers.hpp"

#include <farcall/offload/job.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::openmp {

/// The job of this process, whose targets are its OpenMP devices. Any thread may use it; the thread
/// that loads the plugin makes it.
class devices {
 public:
  /// Starts the targets of FARCALL_TARGETS, and prepares them. Throws start_failed, setting_error,
  /// node_failed, and unknown_function for targets that run another program.
  devices();

  /// True if lines of the devices have labels. This process then writes the lines.
  [[nodiscard]] bool labels_lines() const noexcept { return labels_lines_; }
  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
  [[nodiscard]] device& at(std::int32_t number) {
    return *all_.at(static_cast<std::size_t>(number));
  }
  /// Allocates memory on a device. If the device has none, first frees the blocks that the devices
  /// have kept. Throws what device::allocate() throws.
  [[nodiscard]] std::uint64_t allocate(std::int32_t number, std::size_t bytes);
  /// Ends the job: the targets end, and all lines that they have printed are written.
  void close();

 private:
  /// Prepares nodes, of which the first is the device `first`.
  void prepare(const std::vector<node>& fresh, std::uint32_t first);
  /// Sets the places of these nodes, and returns the number of targets that share the processors of
  /// each.
  [[nodiscard]] std::vector<std::uint32_t> sharers_of_fresh(const std::vector<node>& fresh,
                                                            std::uint32_t first);

  const bool labels_lines_;
  job job_;
  std::mutex places_mutex_;
  std::vector<target_place> places_; ///< by device; guarded by places_mutex_
  std::vector<std::unique_ptr<device>> all_;
};

} // namespace farcall::openmp
