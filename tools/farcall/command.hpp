#pragma once

#include <farcall/base/error.hpp>

#include <functional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

namespace farcall::tool {

/// The command line or a setting asks for something that cannot be: exit code 2, and nothing was
/// started.
struct usage_problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What was asked for is possible, but it went wrong: exit code 1.
struct failed_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the chosen subcommand does; the result is the exit code. It runs after the whole command
/// line has been read, so that a mistake at its end is found before anything starts.
using action = std::function<int()>;

void add_info(CLI::App& app, action& chosen);
void add_run(CLI::App& app, action& chosen);
void add_serve(CLI::App& app, action& chosen);
void add_keygen(CLI::App& app, action& chosen);
void add_bench(CLI::App& app, action& chosen);

/// Writes to standard output and flushes; a full disk or closed output is a failed_run.
void print(const std::string& text);

} // namespace farcall::tool
