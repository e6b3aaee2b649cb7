#pragma once

#include <farcall/base/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// What a sampling profiler has seen of the processes of a job: an in-memory form that the sampler
/// fills and every output format is written from. Frames and stacks are stored once each, as in the
/// formats of the Firefox Profiler and of pprof.
namespace farcall::tool {

/// One function in a stack, as precisely as it is known.
struct profile_frame {
  std::string function;      ///< demangled; its address in hexadecimal where it has no name
  std::string module;        ///< path of the program or library; empty where there is none
  std::string file;          ///< of its source; empty where that is not known
  std::uint32_t line = 0;    ///< 0: not known
  std::uint64_t address = 0; ///< in the module's file
  bool is_inlined = false;   ///< into the next outer frame

  bool operator==(const profile_frame&) const = default;
};

/// A frame and the stack of its callers.
struct profile_stack {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t frame = 0;     ///< in profile::frames
  std::uint32_t caller = none; ///< in profile::stacks, at a lower place; none: the outermost

  bool operator==(const profile_stack&) const = default;
};

/// What a thread was doing when it was sampled.
enum class activity : std::uint8_t {
  computes, ///< code of the program
  waits,    ///< for the reply to an offload, or for a copy
  idle,     ///< serves a node's calls, and there are none
};

struct profile_sample {
  std::chrono::nanoseconds at{0}; ///< since the profile's start
  std::uint32_t thread = 0;       ///< in profile::threads
  std::uint32_t stack = 0;        ///< in profile::stacks; the innermost frame
  activity does = activity::computes;
};

struct profile_thread {
  std::int32_t process = 0; ///< number of its process
  std::int32_t thread = 0;  ///< its own number
  node_id node = no_node;   ///< no_node: a process that is none of a job
  std::string name;         ///< of the thread, as the kernel knows it
  std::string program;      ///< path of the process's program
  bool is_main = false;     ///< the first of its process
  std::string machine{};    ///< its name; empty: this one
};

struct profile {
  std::string command; ///< what was run, or attached to, in words
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds duration{0};
  double samples_per_second = 0; ///< asked for, for each thread that runs
  std::uint64_t lost = 0;        ///< samples that the kernel had to drop
  std::vector<profile_frame> frames;
  std::vector<profile_stack> stacks;
  std::vector<profile_thread> threads;
  std::vector<profile_sample> samples; ///< in the order of their times

  /// Seconds that a sample stands for.
  [[nodiscard]] double seconds_per_sample() const noexcept {
    return samples_per_second > 0 ? 1 / samples_per_second : 0;
  }
};

} // namespace farcall::tool
