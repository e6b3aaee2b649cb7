#include "commands.hpp"

#include <tools/common/outcome.hpp>

/// This file replaces prof.cpp if the command is built without the profiler.
namespace farcall::tool {

command command_prof() {
  return {.name = "prof",
          .text = "Sample what a program does (not built in: -DFARCALL_BUILD_PROFILER=ON)",
          .takes_rest = command::rest::everything,
          .run = [](const std::vector<std::string>&) -> int {
            throw failed_run("this farcall was built without its profiler; build it with "
                             "-DFARCALL_BUILD_PROFILER=ON");
          }};
}

std::vector<std::string> sampler_of_servers() { return {}; }

} // namespace farcall::tool
