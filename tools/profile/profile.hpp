// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// Samples of a job in memory. The sampler makes this form, and every output format is written from
/// it. Frames and stacks are stored only once each, like in the formats of the Firefox Profiler and
/// of pprof.
namespace farcall::tool {

/// A function in a stack, with its source position and address.
struct profile_frame {
  /// Demangled name; if the function has no name, its address in hexadecimal.
  std::string function;
  std::string module;        ///< path of the program or library; empty if the function is in none
  std::string file;          ///< path of the source file; empty if unknown
  std::uint32_t line = 0;    ///< 0 if unknown
  std::uint64_t address = 0; ///< address in the module's file
  bool is_inlined = false;   ///< true if the function was inlined into the next outer frame

  bool operator==(const profile_frame&) const = default;
};

/// A stack, given by its innermost frame and by the stack of this frame's callers.
struct profile_stack {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t frame = 0; ///< in profile::frames
  /// Index in profile::stacks of the stack of the callers, which is lower than this stack's own
  /// index. It is `none` if the frame is the outermost one.
  std::uint32_t caller = none;

  bool operator==(const profile_stack&) const = default;
};

/// Activity of a thread at the time of a sample.
enum class activity : std::uint8_t {
  computes, ///< runs the program's code
  waits,    ///< waits for the reply to an offload, or for the end of a copy
  idle,     ///< waits for calls that other nodes may send, and runs none
};

struct profile_sample {
  std::chrono::nanoseconds at{0}; ///< since the profile's start
  std::uint32_t thread = 0;       ///< in profile::threads
  std::uint32_t stack = 0;        ///< index in profile::stacks of the sample's stack
  activity does = activity::computes;
};

struct profile_thread {
  std::int32_t process = 0; ///< id of its process
  std::int32_t thread = 0;  ///< id of the thread
  /// Number of the node that the thread's process is. It is no_node if the process is not part of a
  /// job.
  node_id node = no_node;
  std::string name;      ///< name of the thread in the kernel
  std::string program;   ///< path of the program that the process runs
  bool is_main = false;  ///< true for the first thread of its process
  std::string machine{}; ///< name of the machine; empty for the machine of the profiler
};

struct profile {
  std::string command; ///< command line, or a description of a process that was running already
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds duration{0};
  /// Requested number of samples per second, for each running thread.
  double samples_per_second = 0;
  std::uint64_t lost = 0; ///< number of samples that the kernel had to drop
  std::vector<profile_frame> frames;
  std::vector<profile_stack> stacks;
  std::vector<profile_thread> threads;
  std::vector<profile_sample> samples; ///< samples by their times

  /// Returns the number of seconds that a sample represents. Returns 0 if there is no rate.
  [[nodiscard]] double seconds_per_sample() const noexcept {
    return samples_per_second > 0 ? 1 / samples_per_second : 0;
  }
};

} // namespace farcall::tool
