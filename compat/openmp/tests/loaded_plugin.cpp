// SPDX-License-Identifier: Apache-2.0
#include "loaded_plugin.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <type_traits>

#include <dlfcn.h>

namespace farcall::openmp {

namespace {

/// A value that is the address of each entry in the host.
int host_entry = 0;

} // namespace

loaded_plugin::loaded_plugin(const char* plugin, const char* image_file) {
  void* const library = ::dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto find_if_there = [library](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  const auto find = [&](auto& function, const char* name) {
    find_if_there(function, name);
    if (function == nullptr) throw std::runtime_error(std::string("the plugin has no ") + name);
  };
  find(is_valid_binary, "__tgt_rtl_is_valid_binary");
  find(number_of_devices, "__tgt_rtl_number_of_devices");
  find_if_there(init_requires, "__tgt_rtl_init_requires");
  find(init_device, "__tgt_rtl_init_device");
  find(load_binary, "__tgt_rtl_load_binary");
  find(data_alloc, "__tgt_rtl_data_alloc");
  find(data_delete, "__tgt_rtl_data_delete");
  find(data_submit, "__tgt_rtl_data_submit");
  find(data_retrieve, "__tgt_rtl_data_retrieve");
  find_if_there(data_exchange, "__tgt_rtl_data_exchange");
  find_if_there(data_submit_async, "__tgt_rtl_data_submit_async");
  find_if_there(data_retrieve_async, "__tgt_rtl_data_retrieve_async");
  find_if_there(synchronize, "__tgt_rtl_synchronize");
  find_if_there(query_async, "__tgt_rtl_query_async");
  find_if_there(launch_kernel, "__tgt_rtl_launch_kernel");
  find_if_there(run_target_region, "__tgt_rtl_run_target_region");
  find_if_there(run_target_team_region_async, "__tgt_rtl_run_target_team_region_async");
  find_if_there(deinit_plugin, "__tgt_rtl_deinit_plugin");

  std::ifstream file{image_file, std::ios::binary};
  bytes_.assign(std::istreambuf_iterator<char>(file), {});
  names_ = {"table"};
  for (const char* name : {"empty_l1", "add_l2", "sum_of_table_l3", "tell_process_l4", "fault_l5",
                           "meet_l6", "print_l7", "compute_l8", "absent_l9", "change_l10"})
    names_.push_back(std::string("__omp_offloading_1_2_") + name);
  for (std::string& name : names_) {
    const std::size_t size = &name == names_.data() ? 4 * sizeof(int) : 0;
    entries_.push_back({&host_entry, name.data(), size, 0, 0});
  }
  image = {bytes_.data(), bytes_.data() + bytes_.size(), entries_.data(),
           entries_.data() + entries_.size()};
}

entry_list* loaded_plugin::load(std::int32_t device) { return load_binary(device, &image); }

void* loaded_plugin::entry(const entry_list& table, const std::string& name) {
  for (const image_entry* e = table.begin; e != table.end; ++e) {
    if (std::string(e->name).ends_with(name)) return e->address;
  }
  throw std::runtime_error("the image has no entry " + name);
}

std::int32_t loaded_plugin::run(std::int32_t device, void* entry, std::vector<void*> arguments,
                                async_info* info) {
  std::vector<std::ptrdiff_t> offsets(arguments.size());
  const launch_arguments how{2, static_cast<std::uint32_t>(arguments.size())};
  return launch_kernel(device, entry, arguments.data(), offsets.data(), &how, info);
}

} // namespace farcall::openmp
