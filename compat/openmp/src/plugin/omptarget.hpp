// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// The interface between LLVM's libomptarget and a plugin, in LLVM 15 and 16: the structs
/// that both sides read, and the functions that libomptarget looks up by their names. LLVM 16 calls
/// regions by __tgt_rtl_launch_kernel, and LLVM 15 by the functions __tgt_rtl_run_target_*; all
/// other functions are the same.
namespace farcall::openmp {

/// A region, or a global variable, of an image. Regions have the size 0.
struct image_entry {
  void* address;
  char* name;
  std::size_t size;
  std::int32_t flags;
  std::int32_t reserved;
};

/// An image in the memory of the program: a shared library, and the program's own entries.
struct device_image {
  void* begin;
  void* end;
  image_entry* entries_begin;
  image_entry* entries_end;
};

/// Entries of a device, in the order of the image's entries.
struct entry_list {
  image_entry* begin;
  image_entry* end;
};

/// Place in which a task of the program keeps the plugin's queue.
struct async_info {
  void* queue;
};

/// Beginning of the arguments of a launch in LLVM 16. The rest is not used here.
struct launch_arguments {
  std::uint32_t version;
  std::uint32_t arguments;
};

/// Results of functions.
inline constexpr std::int32_t success = 0;
inline constexpr std::int32_t failure = -1;

/// Kinds of memory for allocations.
enum class memory_kind : std::int32_t { device = 0, host = 1, shared = 2, usual = 3 };

/// Bit of the requirements of a program: host and devices use the same addresses.
inline constexpr std::int64_t requires_shared_memory = 0x8;

} // namespace farcall::openmp

#define FARCALL_OPENMP_EXPORT __attribute__((visibility("default")))

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): libomptarget's names
extern "C" {

FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_is_valid_binary(farcall::openmp::device_image* image);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_number_of_devices();
FARCALL_OPENMP_EXPORT std::int64_t __tgt_rtl_init_requires(std::int64_t flags);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_init_device(std::int32_t id);
FARCALL_OPENMP_EXPORT farcall::openmp::entry_list*
__tgt_rtl_load_binary(std::int32_t id, farcall::openmp::device_image* image);
FARCALL_OPENMP_EXPORT void __tgt_rtl_print_device_info(std::int32_t id);

FARCALL_OPENMP_EXPORT void* __tgt_rtl_data_alloc(std::int32_t id, std::int64_t bytes, void* host,
                                                 std::int32_t kind);
/// LLVM 16 passes the kind of memory as a third argument, which is ignored.
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_delete(std::int32_t id, void* address);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_submit(std::int32_t id, void* to, void* from,
                                                         std::int64_t bytes);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_retrieve(std::int32_t id, void* to, void* from,
                                                           std::int64_t bytes);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_is_data_exchangable(std::int32_t from,
                                                                 std::int32_t to);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_exchange(std::int32_t from_id, void* from,
                                                           std::int32_t to_id, void* to,
                                                           std::int64_t bytes);

FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_submit_async(std::int32_t id, void* to,
                                                               void* from, std::int64_t bytes,
                                                               farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_retrieve_async(std::int32_t id, void* to,
                                                                 void* from, std::int64_t bytes,
                                                                 farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_data_exchange_async(std::int32_t from_id, void* from,
                                                                 std::int32_t to_id, void* to,
                                                                 std::int64_t bytes,
                                                                 farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_synchronize(std::int32_t id,
                                                         farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_query_async(std::int32_t id,
                                                         farcall::openmp::async_info* info);

FARCALL_OPENMP_EXPORT std::int32_t
__tgt_rtl_launch_kernel(std::int32_t id, void* entry, void** arguments, std::ptrdiff_t* offsets,
                        const farcall::openmp::launch_arguments* how,
                        farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_run_target_region(std::int32_t id, void* entry,
                                                               void** arguments,
                                                               std::ptrdiff_t* offsets,
                                                               std::int32_t count);
FARCALL_OPENMP_EXPORT std::int32_t
__tgt_rtl_run_target_region_async(std::int32_t id, void* entry, void** arguments,
                                  std::ptrdiff_t* offsets, std::int32_t count,
                                  farcall::openmp::async_info* info);
FARCALL_OPENMP_EXPORT std::int32_t
__tgt_rtl_run_target_team_region(std::int32_t id, void* entry, void** arguments,
                                 std::ptrdiff_t* offsets, std::int32_t count, std::int32_t teams,
                                 std::int32_t threads, std::uint64_t iterations);
FARCALL_OPENMP_EXPORT std::int32_t
__tgt_rtl_run_target_team_region_async(std::int32_t id, void* entry, void** arguments,
                                       std::ptrdiff_t* offsets, std::int32_t count,
                                       std::int32_t teams, std::int32_t threads,
                                       std::uint64_t iterations, farcall::openmp::async_info* info);

/// Ends the job; libomptarget of LLVM 16 calls it at the end of the program.
FARCALL_OPENMP_EXPORT std::int32_t __tgt_rtl_deinit_plugin();
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
