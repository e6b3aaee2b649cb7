// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "commands.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <filesystem>

#include <unistd.h>

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

int start(const std::vector<std::string>& rest) {
  const std::string program = bench_program();
  std::vector<std::string> words{program};
  words.insert(words.end(), rest.begin(), rest.end());
  execv(program.c_str(), argument_pointers(words).data());
  throw failed_run("cannot start " + program + ": " + reason_text(errno));
}

} // namespace

std::string this_program() { return fs::read_symlink("/proc/self/exe"); }

std::string bench_program() {
  std::string program = fs::path(this_program()).parent_path() / "farcall-bench";
  if (::access(program.c_str(), X_OK) != 0) {
    throw failed_run("there is no " + program +
                     ", the program that measures; install it beside this command, or build it: "
                     "cmake --build <folder> --target farcall_bench");
  }
  return program;
}

std::string served_for_benchmarks(const std::string& program) {
  std::error_code ignored;
  return fs::equivalent(program, this_program(), ignored) ? bench_program() : program;
}

command command_bench() {
  return {.name = "bench",
          .text = "Measure what an offload costs here, beside the floor of the same run",
          .takes_rest = command::rest::everything,
          .run = start};
}

} // namespace farcall::tool
