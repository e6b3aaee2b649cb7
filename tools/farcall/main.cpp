#include "commands.hpp"

#include <farcall/offload/job.hpp>

int main(int argc, char** argv) {
  using namespace farcall::tool;
  farcall::serve_if_target(); // `info` starts this very program as its targets
  return run_command_line(
      {.name = "farcall",
       .text = "Call C++ functions in other processes: look at the machine, start jobs, measure "
               "what an offload costs.",
       .commands = {command_info(), command_run(), command_serve(), command_keygen(),
                    command_bench()}},
      FARCALL_TOOL_VERSION, argc, argv);
}
