// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../messages.hpp"
#include "kernel_cache.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace farcall::veo {

/// Executes the requests of the host library libveo: loads libraries, runs kernels, manages memory.
/// Each process has one object. The worker thread of each context has a separate stack for kernels.
class helper_process final : public helper {
 public:
  /// Installs the fault handlers, registers the messages, and sets helper::instance to this object.
  helper_process();
  ~helper_process() override;

  helper_description start(const helper_settings& settings) override;
  void open_context(const context_settings& settings) override;
  outcome run(const kernel_call& call) override;
  outcome_with_bytes run_with_frame(const kernel_call& call) override;
  found load(const std::string& path) override;
  found unload(std::uint64_t library) override;
  found symbol(std::uint64_t library, const std::string& name) override;
  found allocate(std::uint64_t bytes) override;
  outcome release(std::uint64_t address) override;
  outcome write(std::uint64_t address, std::span<const std::byte> bytes) override;
  outcome_with_bytes read(std::uint64_t address, std::uint64_t bytes) override;
  outcome copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) override;
  system_result find_segment(std::int64_t key, std::uint64_t bytes, std::int32_t flags) override;
  system_result attach_segment(std::int32_t id, std::int32_t flags) override;
  system_result detach_segment(std::uint64_t address) override;

 private:
  /// Returns true if a kernel has failed, so that the process is ending and must not execute the
  /// request. In this case the functions also mark the reply as refused.
  [[nodiscard]] bool is_ending(outcome& o) const noexcept;
  [[nodiscard]] bool is_ending(found& f) const;
  /// Makes the reply to a request for a system call: `value` is the result of the system call, and
  /// the error comes from errno.
  [[nodiscard]] system_result ended(std::int64_t value) noexcept;
  [[nodiscard]] outcome run_with(const kernel_call& call, std::span<const std::uint64_t> words,
                                 void* stack_top);
  [[nodiscard]] outcome finish(const kernel::result& r) noexcept;
  void end_soon(int signal) noexcept;

  kernel_cache kernels_;
  std::mutex libraries_mutex_;
  std::multiset<std::uint64_t> libraries_; ///< library handles that the host has
  std::atomic<bool> is_ending_{false};
  std::atomic<unsigned> contexts_made_{0};
};

} // namespace farcall::veo

/// Stores the result of an earlier request of the context whose kernel is calling. Returns 0, or -1
/// if there is no such request or the thread runs no kernel. The library libaveoVE calls this
/// function.
extern "C" int farcall_veo_previous_result(int offset, std::uint64_t* result);
