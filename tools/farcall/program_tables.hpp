// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/offload/callables.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace farcall::tool {

/// Starts a program as a target, gets its table of callables, and ends the program. `program` is a
/// file, a name on the PATH, or "exec:" and a command line, as in the URL of a target. A program
/// for another instruction set runs in qemu-user, if qemu-user is on the PATH. The program's output
/// goes to standard error. Takes no longer than `timeout` and a few seconds. Throws failed_run if
/// the program does not start or makes no job, and usage_problem if the file is no program.
[[nodiscard]] detail::program_table read_program_table(const std::string& program,
                                                       std::chrono::milliseconds timeout);

/// Returns the beginning of a command line that runs a program in an emulator, such as
/// "qemu-aarch64 -L FOLDER". FOLDER has the libraries for the program. Returns an empty list if the
/// program has the instruction set of this command, or if no emulator is installed.
[[nodiscard]] std::vector<std::string> emulator_of(const std::string& file);

} // namespace farcall::tool
