// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "commands.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

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

std::string output_of_part(const std::string& name, const std::vector<std::string>& words) {
  std::vector<std::string> line{fs::path(this_program()).parent_path() / name};
  if (::access(line.front().c_str(), X_OK) != 0) return {};
  line.insert(line.end(), words.begin(), words.end());
  const program_result done = run_program(line, std::chrono::seconds(60));
  if (done.exit_status != 0) {
    throw failed_run(fmt::format("{} has failed; install the one of this version: {}", line.front(),
                                 done.standard_error));
  }
  return done.standard_output;
}

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
          .usage = {"COMMAND [OPTIONS]"},
          .takes_rest = command::rest::everything,
          .run = start,
          .ask_program = [](const std::vector<std::string>& words) {
            return output_of_part("farcall-bench", words);
          }};
}

} // namespace farcall::tool
