// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <farcall/offload/job.hpp>

#include <string_view>

int main(int argc, char** argv) {
  using namespace farcall::tool;
  // Some processes that run this program are targets, and serve calls here instead of running a
  // command. `info` uses this program for its targets, which a launcher may also have started.
  // `serve` starts it as the sampler for a `prof` on another machine (server_sampler.hpp).
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "info" || word == "sampler") farcall::serve_if_target();
  return run_command_line(
      {.name = "farcall",
       .text = "Call C++ functions in other processes: look at the machine, start jobs, measure "
               "what an offload costs.",
       .commands = {command_info(), command_run(), command_serve(), command_keygen(),
                    command_bench(), command_top(), command_functions(), command_process_group(),
                    command_prof()}},
      FARCALL_TOOL_VERSION, argc, argv);
}
