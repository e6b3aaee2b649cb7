#pragma once

#include "../messages.hpp"
#include "kernel_cache.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace farcall::veo {

/// aveorun at work: libraries, kernels, memory. One per process; each context's worker thread has
/// its own stack for kernels.
class helper_process final : public helper {
 public:
  /// Takes over this process: from now on faults are reported, and messages find it.
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
  /// Once a kernel has failed nothing else is done; the answer says so.
  [[nodiscard]] bool is_ending(outcome& o) const noexcept;
  [[nodiscard]] bool is_ending(found& f) const;
  /// Of a call of the system that gave `value`, with errno as it left it.
  [[nodiscard]] system_result ended(std::int64_t value) noexcept;
  [[nodiscard]] outcome run_with(const kernel_call& call, std::span<const std::uint64_t> words,
                                 void* stack_top);
  [[nodiscard]] outcome finish(const kernel::result& r) noexcept;
  void end_soon(int signal) noexcept;

  kernel_cache kernels_;
  std::mutex libraries_mutex_;
  std::multiset<std::uint64_t> libraries_; ///< handles that were given out
  std::atomic<bool> is_ending_{false};
  std::atomic<unsigned> contexts_made_{0};
};

} // namespace farcall::veo

/// For libaveoVE: the result of an earlier request of the calling kernel's context. 0, or -1 when
/// there is none, or the thread runs no kernel.
extern "C" int farcall_veo_previous_result(int offset, std::uint64_t* result);
