#include "command.hpp"

#include <farcall/farcall.hpp>

#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr int run_failed = 1;
constexpr int usage_wrong = 2;

int complain(int exit_code, const char* what) {
  fmt::print(stderr, "farcall: {}\n", what);
  return exit_code;
}

int run_command(int argc, char** argv) {
  CLI::App app{"Call C++ functions in other processes: look at the machine, start jobs, measure "
               "what an offload costs."};
  app.name("farcall");
  app.require_subcommand(1);
  app.set_version_flag("--version", FARCALL_TOOL_VERSION);
  action chosen;
  add_info(app, chosen);
  add_run(app, chosen);
  add_bench(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) { // --help and --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e); // prints what was wrong and where help is
    return usage_wrong;
  }
  try {
    return chosen();
  } catch (const usage_problem& e) {
    return complain(usage_wrong, e.what());
  } catch (const farcall::setting_error& e) {
    return complain(usage_wrong, e.what());
  } catch (const std::exception& e) {
    return complain(run_failed, e.what());
  }
}

} // namespace
} // namespace farcall::tool

int main(int argc, char** argv) {
  farcall::serve_if_target(); // the benchmarks start this very program as their targets
  return farcall::tool::run_command(argc, argv);
}
