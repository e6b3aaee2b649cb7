#include "command.hpp"
#include "run_plan.hpp"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr const char* variable = "FARCALL_TARGETS";

struct run_options {
  std::optional<std::size_t> processes;
  std::optional<std::string> targets;
  bool json = false;
};

int start(const run_plan& plan) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread, and the program replaces it.
  if (setenv(variable, plan.targets.c_str(), 1) != 0) {
    throw failed_run(fmt::format("cannot set {}: {}", variable, error_text(errno)));
  }
  std::vector<std::string> words = plan.words;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(plan.program.c_str(), arguments.data());
  throw failed_run(fmt::format("cannot start {}: {}", plan.program, error_text(errno)));
}

int run_app(const run_options& options, const std::vector<std::string>& command) {
  const run_plan plan = make_run_plan(options.processes, options.targets, command);
  if (!options.json) return start(plan);
  const nlohmann::ordered_json json{{"program", plan.program},
                                    {"arguments", plan.words},
                                    {"environment", {{variable, plan.targets}}}};
  print(json.dump(2) + '\n');
  return 0;
}

} // namespace

void add_run(CLI::App& app, action& chosen) {
  auto options = std::make_shared<run_options>();
  CLI::App* run = app.add_subcommand("run", "Start a farcall program with targets: farcall run [-n "
                                            "N | --targets URLS] ./app [its arguments ...]");
  CLI::Option* number = run->add_option("-n", options->processes,
                                        "Number of processes, the host included, as with mpirun: "
                                        "-n 4 is the host and three shm targets");
  run->add_option("--targets", options->targets,
                  "Targets by URL, comma separated, e.g. shm:4 or shm?workers=2&cpu=1")
      ->excludes(number);
  run->add_flag("--json", options->json, "Print what would be started, and start nothing");
  // From the program's name on everything belongs to the program, its options included.
  run->prefix_command();
  run->footer(fmt::format(
      "Sets {} and executes the program in place of this command. Without -n and --targets: one "
      "shm target. Options come before the program.",
      variable));
  run->callback(
      [options, run, &chosen] { chosen = [=] { return run_app(*options, run->remaining()); }; });
}

} // namespace farcall::tool
