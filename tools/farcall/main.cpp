// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <tools/common/version_text.hpp>

#include <farcall/offload/job.hpp>

#include <string_view>

int main(int argc, char** argv) {
  using namespace farcall::tool;
  // Some processes that run this program are targets, and serve calls here instead of running a
  // command. `info` uses this program for its targets, which a launcher may also have started.
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "info") farcall::serve_if_target();
  return run_command_line(
      {.name = "farcall",
       .text = "Call C++ functions in other processes: look at the machine, start jobs, measure "
               "what an offload costs",
       .examples = {{"farcall run -n 4 ./app", "Run a program with three targets"},
                    {"farcall top", "Show what the nodes of running jobs do"},
                    {"farcall prof -o app.html -- ./app", "Sample a program, and make a page"}},
       .commands = {command_info(), command_run(), command_serve(), command_keygen(),
                    command_bench(), command_top(), command_functions(), command_process_group(),
                    command_prof()}},
      version_text(), argc, argv);
}
