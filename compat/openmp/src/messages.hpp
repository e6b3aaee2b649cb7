// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Messages and calls from the plugin, which libomptarget loads into the user's program, to the
/// program farcall-openmp-target, which runs target regions. The two are different builds, so their
/// callables are matched by the names of the functions and types in this header.
namespace farcall::openmp {

/// Prefix of the raw message that runs a target region. The payload has the region's arguments,
/// each as a word of 8 bytes. The reply is empty.
struct region_message {
  std::uint64_t code = 0; ///< address of the region's function in the target
};

/// Data that a target needs before it can run regions.
struct target_setup {
  std::uint32_t device = 0;  ///< number of the OpenMP device
  std::uint32_t devices = 0; ///< number of all devices
  /// Number of targets that share the processors of this target, itself included.
  std::uint32_t sharers = 1;
  /// "NAME=value" for variables that the target sets unless its environment has them.
  std::vector<std::string> environment;
  /// Path of the OpenMP runtime that the program uses; empty if it is unknown.
  std::string runtime;
};

/// Implementation of the calls below in the target. Only farcall-openmp-target has an instance.
class target_services {
 public:
  target_services() = default;
  target_services(const target_services&) = delete;
  target_services& operator=(const target_services&) = delete;
  virtual ~target_services() = default;
  /// Returns the processors on which this process may run. Processor `i` is bit `i % 64` of the
  /// word `i / 64`; the last word is not 0.
  virtual std::vector<std::uint64_t> processors() = 0;
  /// Prepares this process, and accepts regions from then on.
  virtual void prepare(const target_setup& setup) = 0;
  /// Loads an image, and returns the address of each name; 0 for a name that the image lacks.
  /// Throws error if the image cannot be loaded.
  virtual std::vector<std::uint64_t> load(std::span<const std::byte> image,
                                          const std::vector<std::string>& names) = 0;

  static target_services* instance;
};

// Calls of the plugin, which run in the target.

[[nodiscard]] std::vector<std::uint64_t> own_processors();
void prepare_target(std::uint32_t device, std::uint32_t devices, std::uint32_t sharers,
                    std::vector<std::string> environment, std::string runtime);
[[nodiscard]] std::vector<std::uint64_t> load_image(std::span<const std::byte> image,
                                                    std::vector<std::string> names);
void copy_inside(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

} // namespace farcall::openmp
