#pragma once

#include <farcall/offload/callables.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace farcall::tool {

/// Starts a program as a target, asks it for its table of callables, and ends it. `program` is a
/// file, a name on the PATH, or "exec:" and a command line, as in URLs of targets. One of another
/// instruction set is started by qemu-user, where that is on the PATH. What it prints goes to
/// standard error. Returns or throws within `patience` and a few seconds: failed_run for one that
/// does not start or makes no job, usage_problem for one that is none.
[[nodiscard]] detail::program_table read_program_table(const std::string& program,
                                                       std::chrono::milliseconds patience);

/// The words that start an emulator for a program file of another instruction set than this
/// command: "qemu-aarch64", and where its libraries are. Empty: none is needed, or there is none.
[[nodiscard]] std::vector<std::string> emulator_of(const std::string& file);

} // namespace farcall::tool
