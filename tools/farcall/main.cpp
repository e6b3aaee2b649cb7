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

/// The first word that stands where a command is expected and is none; empty when there is none.
std::string unknown_word(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (at->get_subcommands([](const CLI::App*) { return true; }).empty()) return "";
    const auto found =
        at->get_subcommands([&](const CLI::App* command) { return command->check_name(word); });
    if (found.empty()) return word;
    at = found.front();
  }
  return "";
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
  add_serve(app, chosen);
  add_keygen(app, chosen);
  add_bench(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) { // --help and --version
    return app.exit(e);
  } catch (const CLI::RequiredError& e) {
    const std::string word = unknown_word(app, argc, argv);
    if (!word.empty()) {
      fmt::print(stderr, "farcall: there is no command \"{}\"; farcall --help lists them\n", word);
      return usage_wrong;
    }
    app.exit(e);
    return usage_wrong;
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
