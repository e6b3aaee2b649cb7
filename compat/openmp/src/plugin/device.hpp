// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "freed_blocks.hpp"
#include "omptarget.hpp"
#include "region.hpp"

#include <farcall/farcall.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace farcall::openmp {

/// Returns a view of memory of a node.
[[nodiscard]] remote_span<std::byte> bytes_of(const node& where, std::uint64_t address,
                                              std::size_t bytes);

/// An OpenMP device, which is a target of the job. Any thread may use it.
class device {
 public:
  /// `restart` starts the device's process again, and returns the new node. If it is empty, the
  /// device is not restarted.
  device(std::uint32_t number, const node& where, std::function<node(const node&)> restart);

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// Returns the node of the device.
  [[nodiscard]] node where() const;
  /// Returns the node of the device for new work. If the node has ended, and the program had no
  /// memory on it, first starts it again. Throws what job::restart() throws.
  [[nodiscard]] node where_usable();

  /// Allocates memory on the node, and returns its address there. Throws node_failed and
  /// out_of_memory.
  [[nodiscard]] std::uint64_t allocate(std::size_t bytes);
  /// Frees memory that allocate() has returned. The device keeps large blocks for later
  /// allocations. Never fails.
  void release(std::uint64_t address) noexcept;
  /// Frees the blocks that the device has kept. Never fails.
  void drop_freed_blocks() noexcept;

  /// Loads an image on the node, and returns its entries there. The entries are valid as long as
  /// this object. Throws node_failed, and remote_error with the loader's text.
  [[nodiscard]] entry_list* load(const device_image& image);

 private:
  struct loaded_image {
    std::span<const std::byte> bytes;
    std::vector<std::string> names;
    std::vector<image_entry> entries;
    std::deque<region> regions; ///< in the order of the entries, without variables
    entry_list table{};
  };

  [[nodiscard]] std::uint64_t allocate_new(std::size_t bytes);
  void free_now(std::span<const std::uint64_t> addresses) noexcept;
  void load_again(const node& on);

  const std::uint32_t number_;
  const std::function<node(const node&)> restart_;
  mutable std::mutex mutex_; ///< protects the members below
  node where_;
  std::vector<std::unique_ptr<loaded_image>> images_;
  bool has_variables_ = false;
  freed_blocks freed_; ///< empty if the device can be restarted, which must then have no memory
  std::atomic<std::size_t> allocations_{0};
};

} // namespace farcall::openmp
