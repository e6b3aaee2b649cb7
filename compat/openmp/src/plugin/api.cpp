// SPDX-License-Identifier: Apache-2.0

// Functions that libomptarget calls.
#include "devices.hpp"
#include "omptarget.hpp"
#include "queue.hpp"

#include <farcall/base/error.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <elf.h>
#include <unistd.h>

namespace farcall::openmp {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t own_machine = EM_X86_64;
constexpr const char* own_triple = "x86_64-pc-linux-gnu";
#elif defined(__aarch64__)
constexpr std::uint16_t own_machine = EM_AARCH64;
constexpr const char* own_triple = "aarch64-unknown-linux-gnu";
#else
#error "libomptarget has no plugin name for this processor"
#endif

void print_line(const std::string& text) {
  const std::string line = "farcall: OpenMP: " + one_line(text) + "\n";
  std::fputs(line.c_str(), stderr);
}

/// The devices of this process. They are never destroyed, because libomptarget uses them while the
/// program's own objects are destroyed. close_devices() ends their job.
devices* started = nullptr;
std::atomic<bool> is_closed{false};
/// Flags that libomptarget has passed to __tgt_rtl_init_requires().
std::atomic<std::int64_t> requirements{0};

/// Ends the program before its main(), because without devices libomptarget would run all regions
/// on the host without a message.
[[noreturn]] void end_program(const std::string& text) {
  print_line(text);
  std::_Exit(2);
}

void close_devices() noexcept {
  if (started == nullptr || is_closed.exchange(true)) return;
  try {
    started->close();
  } catch (const std::exception& e) {
    print_line(exception_text(e));
  }
}

/// Ends the job after the program's destructors, which may run regions.
__attribute__((destructor)) void close_at_exit() { close_devices(); }

/// Starts the devices.
void start_devices() {
  started = new devices;
  // LLVM 15 loads plugins after the loader has registered the function that runs destructors of
  // libraries. exit() calls functions in the reverse order. So the job's own function, which takes
  // the last lines of targets, would run before close_at_exit(), and lines that arrive later would
  // be lost. With LLVM 16, the devices are closed when exit() calls this function.
  (void)std::atexit(close_devices);
}

std::string device_text(std::int32_t id) {
  return "device " + std::to_string(id) + " (" + node_text(started->at(id).where().id()) + ")";
}

/// Runs an operation on a device. If it fails, prints a line that names the device, the region if
/// there is one, and the cause.
template <class F>
std::int32_t attempt(std::int32_t id, const char* what, const queue* of, F operation) noexcept {
  try {
    operation();
    return success;
  } catch (const std::exception& e) {
    std::string where = device_text(id);
    if (of != nullptr && of->last_region() != nullptr) {
      where += ", " + region_text(of->last_region()->name);
    } else {
      where += ", " + std::string(what);
    }
    print_line(where + ": " + exception_text(e));
    return failure;
  }
}

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::span<const std::byte> input(const void* from, std::int64_t bytes) {
  return {static_cast<const std::byte*>(from), static_cast<std::size_t>(bytes)};
}
std::span<std::byte> output(void* to, std::int64_t bytes) {
  return {static_cast<std::byte*>(to), static_cast<std::size_t>(bytes)};
}

queue& queue_of(async_info& info) {
  if (info.queue == nullptr) info.queue = new queue;
  return *static_cast<queue*>(info.queue);
}

void drop_queue(async_info& info) noexcept {
  delete static_cast<queue*>(info.queue);
  info.queue = nullptr;
}

/// Adds an operation to a task's queue. Without a task, waits for the operation.
template <class F>
std::int32_t enqueue(std::int32_t id, const char* what, async_info* info, F operation) noexcept {
  queue alone;
  queue& to = info == nullptr ? alone : queue_of(*info);
  return attempt(id, what, &to, [&] {
    operation(to);
    if (info == nullptr) to.wait();
  });
}

std::int32_t run(std::int32_t id, void* entry, void** arguments, std::ptrdiff_t* offsets,
                 std::size_t count, async_info* info) {
  // Without labels, devices write their lines directly to the program's standard output. Lines that
  // the program has printed before must come first.
  if (!started->labels_lines()) std::fflush(stdout);
  return enqueue(id, "start of a region", info, [&](queue& to) {
    // libomptarget does not check that the device's image has each of the program's regions.
    if (entry == nullptr) {
      throw error("the image lacks the region; compile all sources of the program for the same "
                  "devices");
    }
    constexpr std::size_t usual = 32;
    std::array<std::uint64_t, usual> near{};
    std::vector<std::uint64_t> far(count > usual ? count : 0);
    std::uint64_t* const words = far.empty() ? near.data() : far.data();
    for (std::size_t i = 0; i < count; ++i)
      words[i] = number_of(arguments[i]) + static_cast<std::uint64_t>(offsets[i]);
    to.run(started->at(id), *static_cast<const region*>(entry), {words, count});
  });
}

std::string machine_text(std::uint16_t machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86_64";
  case EM_AARCH64:
    return "aarch64";
  case EM_PPC64:
    return "ppc64";
  case EM_CUDA:
    return "NVIDIA GPUs";
  case EM_AMDGPU:
    return "AMD GPUs";
  default:
    return "the processor with ELF number " + std::to_string(machine);
  }
}

} // namespace
} // namespace farcall::openmp

using namespace farcall::openmp; // NOLINT(google-build-using-namespace): the functions are C

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): libomptarget's names

std::int32_t __tgt_rtl_is_valid_binary(device_image* image) {
  const auto bytes = static_cast<std::size_t>(static_cast<const char*>(image->end) -
                                              static_cast<const char*>(image->begin));
  Elf64_Ehdr header{};
  if (bytes < sizeof header) return 0;
  std::memcpy(&header, image->begin, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (header.e_machine == own_machine) return 1;
  print_line("an image of this program is for " + machine_text(header.e_machine) +
             ", and is not used; for these nodes, compile with -fopenmp-targets=" + own_triple);
  return 0;
}

std::int32_t __tgt_rtl_number_of_devices() {
  if (started == nullptr) {
    try {
      start_devices();
    } catch (const std::exception& e) {
      end_program(farcall::exception_text(e));
    }
  }
  return static_cast<std::int32_t>(started->count());
}

std::int64_t __tgt_rtl_init_requires(std::int64_t flags) {
  requirements.store(flags, std::memory_order_relaxed);
  return flags;
}

std::int32_t __tgt_rtl_init_device(std::int32_t id) {
  if ((requirements.load(std::memory_order_relaxed) & requires_shared_memory) == 0) return success;
  print_line(device_text(id) + ": the program requires unified_shared_memory, which separate "
                               "processes do not have; leave out the directive");
  return failure;
}

entry_list* __tgt_rtl_load_binary(std::int32_t id, device_image* image) {
  entry_list* loaded = nullptr;
  (void)attempt(id, "load of an image", nullptr, [&] { loaded = started->at(id).load(*image); });
  return loaded;
}

void __tgt_rtl_print_device_info(std::int32_t id) {
  const auto about = started->at(id).where().description();
  std::printf("    farcall: %s: %s on %s (%s), %u processors, by %s\n", device_text(id).c_str(),
              about.name.c_str(), about.host.c_str(), about.architecture.c_str(), about.cores,
              about.transport.c_str());
}

void* __tgt_rtl_data_alloc(std::int32_t id, std::int64_t bytes, void* /*host*/, std::int32_t kind) {
  if (kind == static_cast<std::int32_t>(memory_kind::host) ||
      kind == static_cast<std::int32_t>(memory_kind::shared)) {
    print_line(device_text(id) + ": the program allocates memory that host and devices share, "
                                 "which separate processes do not have");
    return nullptr;
  }
  std::uint64_t address = 0;
  (void)attempt(id, "allocation", nullptr,
                [&] { address = started->allocate(id, static_cast<std::size_t>(bytes)); });
  return reinterpret_cast<void*>(address); // NOLINT(performance-no-int-to-ptr): libomptarget's form
}

std::int32_t __tgt_rtl_data_delete(std::int32_t id, void* address) {
  started->at(id).release(number_of(address));
  return success;
}

std::int32_t __tgt_rtl_data_submit_async(std::int32_t id, void* to, void* from, std::int64_t bytes,
                                         async_info* info) {
  return enqueue(id, "copy to the device", info,
                 [&](queue& q) { q.put(started->at(id), number_of(to), input(from, bytes)); });
}

std::int32_t __tgt_rtl_data_retrieve_async(std::int32_t id, void* to, void* from,
                                           std::int64_t bytes, async_info* info) {
  return enqueue(id, "copy from the device", info,
                 [&](queue& q) { q.get(started->at(id), number_of(from), output(to, bytes)); });
}

std::int32_t __tgt_rtl_data_submit(std::int32_t id, void* to, void* from, std::int64_t bytes) {
  return __tgt_rtl_data_submit_async(id, to, from, bytes, nullptr);
}

std::int32_t __tgt_rtl_data_retrieve(std::int32_t id, void* to, void* from, std::int64_t bytes) {
  return __tgt_rtl_data_retrieve_async(id, to, from, bytes, nullptr);
}

std::int32_t __tgt_rtl_is_data_exchangable(std::int32_t /*from*/, std::int32_t /*to*/) { return 1; }

std::int32_t __tgt_rtl_data_exchange_async(std::int32_t from_id, void* from, std::int32_t to_id,
                                           void* to, std::int64_t bytes, async_info* info) {
  return enqueue(to_id, "copy from another device", info, [&](queue& q) {
    q.copy(started->at(from_id), number_of(from), started->at(to_id), number_of(to),
           static_cast<std::size_t>(bytes));
  });
}

std::int32_t __tgt_rtl_data_exchange(std::int32_t from_id, void* from, std::int32_t to_id, void* to,
                                     std::int64_t bytes) {
  return __tgt_rtl_data_exchange_async(from_id, from, to_id, to, bytes, nullptr);
}

std::int32_t __tgt_rtl_synchronize(std::int32_t id, async_info* info) {
  if (info == nullptr || info->queue == nullptr) return success;
  auto& waited = *static_cast<queue*>(info->queue);
  const std::int32_t result = attempt(id, "synchronisation", &waited, [&] { waited.wait(); });
  drop_queue(*info);
  return result;
}

std::int32_t __tgt_rtl_query_async(std::int32_t id, async_info* info) {
  if (info == nullptr || info->queue == nullptr) return success;
  auto& asked = *static_cast<queue*>(info->queue);
  bool is_done = true;
  const std::int32_t result =
      attempt(id, "synchronisation", &asked, [&] { is_done = asked.poll(); });
  if (is_done || result != success) drop_queue(*info);
  return result;
}

std::int32_t __tgt_rtl_launch_kernel(std::int32_t id, void* entry, void** arguments,
                                     std::ptrdiff_t* offsets, const launch_arguments* how,
                                     async_info* info) {
  return run(id, entry, arguments, offsets, how->arguments, info);
}

std::int32_t __tgt_rtl_run_target_team_region_async(std::int32_t id, void* entry, void** arguments,
                                                    std::ptrdiff_t* offsets, std::int32_t count,
                                                    std::int32_t /*teams*/,
                                                    std::int32_t /*threads*/,
                                                    std::uint64_t /*iterations*/,
                                                    async_info* info) {
  return run(id, entry, arguments, offsets, static_cast<std::size_t>(count), info);
}

std::int32_t __tgt_rtl_run_target_region_async(std::int32_t id, void* entry, void** arguments,
                                               std::ptrdiff_t* offsets, std::int32_t count,
                                               async_info* info) {
  return run(id, entry, arguments, offsets, static_cast<std::size_t>(count), info);
}

std::int32_t __tgt_rtl_run_target_team_region(std::int32_t id, void* entry, void** arguments,
                                              std::ptrdiff_t* offsets, std::int32_t count,
                                              std::int32_t /*teams*/, std::int32_t /*threads*/,
                                              std::uint64_t /*iterations*/) {
  return run(id, entry, arguments, offsets, static_cast<std::size_t>(count), nullptr);
}

std::int32_t __tgt_rtl_run_target_region(std::int32_t id, void* entry, void** arguments,
                                         std::ptrdiff_t* offsets, std::int32_t count) {
  return run(id, entry, arguments, offsets, static_cast<std::size_t>(count), nullptr);
}

std::int32_t __tgt_rtl_deinit_plugin() {
  close_devices();
  return success;
}

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
