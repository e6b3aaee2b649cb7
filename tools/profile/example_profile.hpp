// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <utility>

namespace farcall::tool {

/// Returns a small profile for tests that uses each part of the model. Twelve samples at 100 per
/// second: node 0's main thread computes in main > solve > axpy (six, of which two in axpy are
/// inlined into solve) and waits twice in main > wait; node 1 is idle for three, and computes once
/// in a function whose name must be escaped in every format.
[[nodiscard]] inline profile example_profile() {
  using namespace std::chrono_literals;
  profile seen;
  seen.command = "./solver <input> & \"more\"";
  seen.started = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
  seen.duration = 120ms;
  seen.samples_per_second = 100;
  seen.lost = 7;
  const std::string program = "/opt/solver/bin/solver";
  const std::string library = "/usr/lib/libm.so.6";
  const auto frame = [](std::string function, std::string module, std::string file,
                        std::uint32_t line, std::uint64_t address, bool is_inlined = false) {
    return profile_frame{std::move(function), std::move(module), std::move(file), line, address,
                         is_inlined};
  };
  seen.frames = {frame("main", program, "main.cpp", 10, 0x1000),
                 frame("solve(matrix<double> const&)", program, "solve.cpp", 20, 0x2000),
                 frame("axpy", program, "axpy.hpp", 30, 0x2000, true),
                 frame("axpy", program, "axpy.hpp", 31, 0x3000),
                 frame("wait", "", "", 0, 0),
                 frame("serve", library, "", 0, 0x4000),
                 frame("a;b <&\"'\x01\xff]]> operator()", library, "", 0, 0x5000)};
  constexpr auto none = profile_stack::none;
  seen.stacks = {{0, none}, {1, 0}, {2, 1}, {3, 1}, {4, 0}, {5, none}, {6, 5}};
  seen.threads = {{.process = 100,
                   .thread = 100,
                   .node = 0,
                   .name = "solver",
                   .program = program,
                   .is_main = true},
                  {.process = 200,
                   .thread = 201,
                   .node = 1,
                   .name = "wor;ker",
                   .program = program,
                   .is_main = false},
                  {.process = 300,
                   .thread = 300,
                   .node = no_node,
                   .name = "none",
                   .program = "/bin/sleep",
                   .is_main = true}};
  const auto add = [&](std::uint32_t thread, std::uint32_t stack, activity does, int times) {
    for (int i = 0; i < times; ++i)
      seen.samples.push_back({10ms * static_cast<int>(seen.samples.size()), thread, stack, does});
  };
  add(0, 1, activity::computes, 3);
  add(0, 2, activity::computes, 2);
  add(0, 3, activity::computes, 1);
  add(0, 4, activity::waits, 2);
  add(1, 5, activity::idle, 3);
  add(1, 6, activity::computes, 1);
  return seen;
}

/// Returns the example, in which main calls solve by two functions of farcall and one of the
/// standard library.
[[nodiscard]] inline profile profile_with_farcall() {
  profile seen = example_profile();
  std::uint32_t caller = 0; // the stack of main
  for (const char* name :
       {"farcall::detail::call(int)", "std::__invoke<int>(int)", "farcall::run()"}) {
    const auto frame = static_cast<std::uint32_t>(seen.frames.size());
    seen.frames.push_back({.function = name, .module = seen.frames[0].module, .file = {}});
    seen.stacks.insert(seen.stacks.begin() + caller + 1, {frame, caller});
    ++caller;
  }
  for (std::size_t i = caller + 1; i < seen.stacks.size(); ++i) {
    std::uint32_t& from = seen.stacks[i].caller;
    if (from != profile_stack::none) from += caller;
  }
  for (profile_sample& s : seen.samples)
    s.stack += caller;
  return seen;
}

} // namespace farcall::tool
