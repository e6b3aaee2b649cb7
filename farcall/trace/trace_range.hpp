#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace farcall {

namespace trace {
class recorder;
} // namespace trace

/// Shows in a job's timeline (FARCALL_TRACE) what the calling thread does while this object lives,
/// under a name: `fc::trace_range assembling("assemble");`. Costs one comparison while nothing is
/// traced. The name is copied; there may be 4,096 different ones, more are shown as the first. Does
/// not block, never fails. Ends on the thread that made it. As NVTX's ranges.
class trace_range {
 public:
  /// Begins the range. Never blocks, never fails.
  explicit trace_range(std::string_view name) noexcept {
    // Relaxed: begin() looks again.
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
  /// This process records.
  static constinit std::atomic<bool> is_traced;

  void begin(std::string_view name) noexcept;
  void end() noexcept;

  trace::recorder* by_ = nullptr;
  std::uint32_t name_ = 0;
};

} // namespace farcall
