// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace farcall {

namespace trace {
class recorder;
} // namespace trace

/// Marks a part of a program, which a job's timeline (FARCALL_TRACE) then shows as a range with a
/// name, for instance `fc::trace_range assembling("assemble");`. The range lasts as long as this
/// object, which must be destroyed on the thread that made it. Costs one comparison if tracing is
/// off. The name is copied. There may be 4,096 different names; further names are shown as the
/// first name. Does not block, never fails. Like NVTX's ranges.
class trace_range {
 public:
  /// Begins the range. Never blocks, never fails.
  explicit trace_range(std::string_view name) noexcept {
    // Relaxed: begin() checks again.
    if (is_traced.load(std::memory_order_relaxed)) [[unlikely]]
      begin(name);
  }
  trace_range(const trace_range&) = delete;
  trace_range& operator=(const trace_range&) = delete;
  ~trace_range() {
    if (by_ != nullptr) [[unlikely]]
      end();
  }

 private:
  friend class trace::recorder;
  /// True if this process records a timeline.
  static constinit std::atomic<bool> is_traced;

  void begin(std::string_view name) noexcept;
  void end() noexcept;

  trace::recorder* by_ = nullptr;
  std::uint32_t name_ = 0;
};

} // namespace farcall
