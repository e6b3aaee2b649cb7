// SPDX-License-Identifier: Apache-2.0

// farcall-prof, started by `farcall prof`.

#include "commands.hpp"

#include <tools/common/command_line.hpp>
#include <tools/common/documents.hpp>

#include <farcall/offload/job.hpp>

#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  using namespace farcall::tool;
  // `farcall serve` starts this program as the sampler for a `farcall prof` on another machine
  // (server_sampler.hpp).
  if (argc > 1 && std::string_view(argv[1]) == "sampler") farcall::serve_if_target();
  // The command farcall makes its documents with the help of its parts.
  if (argc > 1 && std::string_view(argv[1]) == documents_option) {
    command shown = command_of_profiler();
    shown.name = "farcall prof";
    return run_command_line(shown, "", argc, argv);
  }
  // The words of `farcall prof`, as users start it, for messages and help.
  std::vector<const char*> words{argv[0], "prof"};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  return run_command_line(
      {.name = "farcall", .text = "Sample programs", .commands = {command_of_profiler()}}, "",
      argc + 1, words.data());
}
