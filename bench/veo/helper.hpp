// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/patterns/patterns.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

struct veo_proc_handle;
struct veo_thr_ctxt;

namespace farcall::tool {

/// A process of libveo whose context runs on one processor, for benchmarks of the VEO interface.
class veo_helper {
 public:
  /// `calls`: upper limit for the tests below. Throws failed_run with libveo's reason.
  veo_helper(int cpu, std::size_t calls);
  ~veo_helper();
  veo_helper(const veo_helper&) = delete;
  veo_helper& operator=(const veo_helper&) = delete;
  veo_helper(veo_helper&&) = delete;
  veo_helper& operator=(veo_helper&&) = delete;

  [[nodiscard]] int pid() const;

  /// Returns AVEO's four tests with the C interface; valid during the lifetime of this object.
  [[nodiscard]] call_tests tests();
  /// Call an empty kernel, by veo_call_sync, or by veo_call_async and veo_call_wait_result.
  void call_sync();
  void call_and_wait();

  /// Allocates memory of the helper. Throws failed_run.
  [[nodiscard]] std::uint64_t allocate(std::size_t bytes);
  void release(std::uint64_t address);
  void write(std::uint64_t to, const void* from, std::size_t bytes);
  void read(void* to, std::uint64_t from, std::size_t bytes);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace farcall::tool
