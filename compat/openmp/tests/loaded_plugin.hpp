// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../src/plugin/omptarget.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::openmp {

/// A plugin and an image, loaded in this process in libomptarget's place. There is one object per
/// plugin and process, because a plugin stays loaded.
class loaded_plugin {
 public:
  /// Loads a plugin, and reads the image that image.c makes. farcall's plugin starts the targets of
  /// FARCALL_TARGETS when it is asked for the number of devices.
  loaded_plugin(const char* plugin, const char* image_file);

  // Functions of the plugin. Packaged plugins lack some.
  decltype(&__tgt_rtl_is_valid_binary) is_valid_binary = nullptr;
  decltype(&__tgt_rtl_number_of_devices) number_of_devices = nullptr;
  decltype(&__tgt_rtl_init_requires) init_requires = nullptr;
  decltype(&__tgt_rtl_init_device) init_device = nullptr;
  decltype(&__tgt_rtl_load_binary) load_binary = nullptr;
  decltype(&__tgt_rtl_data_alloc) data_alloc = nullptr;
  decltype(&__tgt_rtl_data_delete) data_delete = nullptr;
  decltype(&__tgt_rtl_data_submit) data_submit = nullptr;
  decltype(&__tgt_rtl_data_retrieve) data_retrieve = nullptr;
  decltype(&__tgt_rtl_data_exchange) data_exchange = nullptr;
  decltype(&__tgt_rtl_data_submit_async) data_submit_async = nullptr;
  decltype(&__tgt_rtl_data_retrieve_async) data_retrieve_async = nullptr;
  decltype(&__tgt_rtl_synchronize) synchronize = nullptr;
  decltype(&__tgt_rtl_query_async) query_async = nullptr;
  decltype(&__tgt_rtl_launch_kernel) launch_kernel = nullptr;
  decltype(&__tgt_rtl_run_target_region) run_target_region = nullptr;
  decltype(&__tgt_rtl_run_target_team_region_async) run_target_team_region_async = nullptr;
  decltype(&__tgt_rtl_deinit_plugin) deinit_plugin = nullptr;

  /// Loads the image of image.c on a device, and returns its entries.
  entry_list* load(std::int32_t device);
  /// Returns the entry with that name, without the compiler's prefix.
  static void* entry(const entry_list& table, const std::string& name);
  /// Calls a region in the way of LLVM 16.
  std::int32_t run(std::int32_t device, void* entry, std::vector<void*> arguments,
                   async_info* info = nullptr);

  /// The image that load() loads.
  device_image image{};

 private:
  std::string bytes_;
  std::vector<std::string> names_;
  std::vector<image_entry> entries_;
};

} // namespace farcall::openmp
