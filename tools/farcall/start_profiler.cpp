// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "commands.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <filesystem>

#include <unistd.h>

/// The profiler is a program of its own, farcall-prof, so that this command needs neither libdw nor
/// zlib.
namespace farcall::tool {

namespace {

std::string profiler() {
  return std::filesystem::path(this_program()).parent_path() / "farcall-prof";
}

bool is_installed(const std::string& program) { return ::access(program.c_str(), X_OK) == 0; }

int start_profiler(const std::vector<std::string>& rest) {
  const std::string program = profiler();
  if (!is_installed(program)) {
    throw failed_run(
        "there is no " + program +
        ", the profiler; install it beside this command (the component profiler of a build with "
        "-DFARCALL_BUILD_PROFILER=ON), or build it: cmake --build <folder> --target farcall_prof");
  }
  std::vector<std::string> words{program};
  words.insert(words.end(), rest.begin(), rest.end());
  execv(program.c_str(), argument_pointers(words).data());
  throw failed_run("cannot start " + program + ": " + reason_text(errno));
}

} // namespace

command command_prof() {
  return {.name = "prof",
          .text = "Sample a program and all processes that it starts, without rebuilding it",
          .usage = {"[OPTIONS] -- PROGRAM [ARGUMENT...]", "[OPTIONS] --pid PID", "--display FILE"},
          .takes_rest = command::rest::everything,
          .run = start_profiler,
          .ask_program = [](const std::vector<std::string>& words) {
            return output_of_part("farcall-prof", words);
          }};
}

std::vector<std::string> sampler_of_servers() {
  const std::string program = profiler();
  return is_installed(program) ? std::vector<std::string>{program, "sampler"}
                               : std::vector<std::string>{};
}

} // namespace farcall::tool
