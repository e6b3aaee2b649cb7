#include "commands.hpp"

#include <farcall/offload/job.hpp>

#include <string_view>

int main(int argc, char** argv) {
  using namespace farcall::tool;
  // `info` starts this very program as its targets, and launchers may have started it several
  // times. `serve` starts it for `prof` elsewhere (server_sampler.hpp).
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
