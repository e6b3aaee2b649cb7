#include "commands.hpp"
#include "debug_plan.hpp"
#include "exports.hpp"
#include "hosts.hpp"
#include "labelled_output.hpp"
#include "remote_servers.hpp"
#include "run_plan.hpp"

#include <tools/common/io_library.hpp>
#include <tools/common/json.hpp>
#include <tools/common/key_in_memory.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/target_url.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr setting ssh_setting{.name = "ssh",
                              .takes = "a command",
                              .otherwise = "ssh -o BatchMode=yes",
                              .source = setting_source::environment,
                              .text = "With --hosts: how a command is run on a host"};

/// Most memory that a node shares in valgrind, in bytes, unless the user has said it: it looks
/// through all of it for leaks.
constexpr const char* little_heap = "268435456";

struct run_options {
  std::optional<std::size_t> processes;
  std::optional<std::string> targets;
  std::optional<std::string> hosts;
  std::optional<std::string> host_files;
  std::optional<std::string> trace;
  bool spmd = false;
  bool label = false;
  std::string ssh;
  std::string folder;
  std::size_t port = 0;
  std::optional<std::string> exports;
  debug_request debug;
  unsigned start_timeout_ms = 30'000;
  bool json = false;
};

void set_variable(const std::string& name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile.
  if (setenv(name.c_str(), value.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set {}: {}", name, reason_text(errno)));
}

/// True if a launcher has started this command several times, and each would start what -n or
/// --hosts names; the launcher's own processes make one job without these. Says so first.
bool is_refused_under_launcher(const run_options& options) {
  if (!options.processes && !options.hosts) return false;
  const std::string which = detail::process_manager_of({});
  if (which == "none") return false; // each is to start its own
  const std::string option =
      options.hosts ? std::string("--hosts") : fmt::format("-n {}", *options.processes);
  const bool is_refused = refuse_launched_together(which, [&](const launched_processes& others) {
    fmt::print(stderr,
               "farcall: a launcher ({}) has started {} processes of this command, and each "
               "would start the nodes that {} names: leave out {}, or the launcher; with {}=none "
               "each makes a job of its own\n",
               others.by, others.count, option, option,
               settings::variable_of(settings::row("process-manager")));
  });
  leave_launched_group();
  return is_refused;
}

void set_variable(const setting& which, const std::string& value) {
  set_variable(settings::variable_of(which), value);
}

/// Targets of this machine use its files anyway, unless they are told not to, or a command line may
/// have put them into a sandbox.
bool may_forward_here(const std::string& targets) {
  const std::string wanted = settings_source().text(settings::row("io-forward")).value_or("auto");
  return wanted == "auto" ? targets.find("exec:") != std::string::npos : wanted != "never";
}

/// What the program sees of --host-files.
void hand_on_host_files(const run_options& options, const std::string& targets) {
  if (!options.host_files) return;
  set_variable(settings::row("host-files"), *options.host_files);
  if (may_forward_here(targets)) preload_io_library();
}

/// Runs the program as a child, and labels what it and its targets print. After block_signals().
int run_labelled(const std::string& program, const std::vector<std::string>& words) {
  labelled_output prints_to;
  set_variable(settings::row("label"), "yes");
  set_variable(lines_variable, text_of(prints_to.lines()));
  return run_to_end(program, words, &prints_to);
}

/// What is there for a debugger.
debug_place place_of_debuggers() {
  const char* const path = std::getenv("PATH");
  return {own_program(), path == nullptr ? "/usr/bin:/bin" : path,
          ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0};
}

/// Puts the debugger's words before the program's.
void wrap_host(run_plan& plan, const std::vector<std::string>& wrapper, const std::string& path) {
  if (wrapper.empty()) return;
  // The wrapper would look it up by itself, and find it elsewhere.
  plan.words.front() = plan.program;
  plan.words.insert(plan.words.begin(), wrapper.begin(), wrapper.end());
  plan.program = find_program(wrapper.front(), path);
}

/// What the host, and the targets that it starts, see of a debugger.
std::vector<std::pair<std::string, std::string>> variables_of(const debug_plan& debug) {
  std::vector<std::pair<std::string, std::string>> all;
  if (!debug.targets.empty())
    all.emplace_back(settings::variable_of(settings::row("wrap")), debug.targets);
  if (!debug.has_timeouts)
    all.emplace_back(settings::variable_of(settings::row("timeouts")), "off");
  if (debug.has_little_memory && !settings_source().number(settings::row("heap-bytes")))
    all.emplace_back(settings::variable_of(settings::row("heap-bytes")), little_heap);
  return all;
}

/// What people type is for the debugger of a target: the host, in the background of the terminal,
/// would be stopped when it reads.
void leave_terminal() {
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0)
    throw failed_run("cannot open /dev/null: " + reason_text(errno));
}

int start(const run_options& options, const run_plan& plan, const debug_plan& debug) {
  hand_on_host_files(options, plan.targets);
  if (options.trace) set_variable(settings::row("trace"), *options.trace);
  for (const auto& [name, value] : variables_of(debug))
    set_variable(name, value);
  if (debug.takes_terminal) leave_terminal();
  if (!plan.targets.empty()) set_variable(settings::row("targets"), plan.targets);
  if (options.spmd) set_variable(settings::row("spmd"), "yes");
  if (options.label) {
    block_signals();
    return run_labelled(plan.program, plan.words);
  }
  std::vector<std::string> words = plan.words;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(plan.program.c_str(), arguments.data());
  throw failed_run(text_of_failed_exec(plan.program, errno));
}

std::string variable_of_targets() { return settings::variable_of(settings::row("targets")); }

std::string ssh_command(const run_options& options) {
  if (!options.ssh.empty()) return options.ssh;
  return settings_source().text(ssh_setting).value_or(settings::default_of(ssh_setting));
}

/// Empty where it has been removed.
std::string folder_of_this_command() {
  std::error_code none;
  return std::filesystem::current_path(none).string();
}

/// What is to be started where, for each host.
std::vector<std::vector<std::string>> serve_commands(const run_options& options,
                                                     const std::vector<host_entry>& hosts,
                                                     const run_plan& plan) {
  // Here and there the same program: machines that work together share their files.
  served_program served;
  served.program = std::filesystem::absolute(plan.program).lexically_normal();
  served.arguments = {plan.words.begin() + 1, plan.words.end()};
  served.needs_folder = !options.folder.empty();
  served.folder = served.needs_folder ? options.folder : folder_of_this_command();
  served.uses_host_files = options.host_files.has_value();
  served.takes_exports = options.exports.has_value();
  std::vector<std::vector<std::string>> commands;
  commands.reserve(hosts.size());
  for (const host_entry& host : hosts)
    commands.push_back(serve_command(ssh_command(options), host, served));
  return commands;
}

bool is_debugged(const run_options& options) {
  const debug_request& debug = options.debug;
  return !debug.gdb.empty() || !debug.valgrind.empty() || !debug.wrap.empty();
}

int run_on_hosts(const run_options& options, const std::vector<std::string>& command) {
  if (is_debugged(options))
    throw usage_problem("--gdb, --valgrind and --wrap are for nodes that are started on this "
                        "machine; leave out --hosts");
  if (options.processes || options.targets)
    throw usage_problem("--hosts names the targets; leave out -n and --targets");
  const run_plan plan = make_run_plan({}, {}, command);
  std::vector<host_entry> hosts = read_hosts(*options.hosts);
  set_ports(hosts, static_cast<std::uint16_t>(options.port));
  // Before anything is started, since it may be refused.
  std::string exports;
  if (options.exports) exports = encode_exports(parse_exports(*options.exports));
  const auto commands = serve_commands(options, hosts, plan);
  if (options.json) {
    const json document{
        {"program", plan.program}, {"arguments", plan.words}, {"servers", commands}};
    print(document.dump(2) + '\n');
    return 0;
  }
  block_signals();
  const key_in_memory key;
  const time_point deadline = clock::now() + std::chrono::milliseconds(options.start_timeout_ms);
  remote_servers servers(hosts, commands, key.line() + exports);
  const std::string urls = servers.urls(deadline);
  hand_on_host_files(options, urls);
  if (options.trace) set_variable(settings::row("trace"), *options.trace);
  set_variable(settings::row("targets"), urls);
  set_variable(settings::row("key"), key.path());
  if (options.spmd) set_variable(settings::row("spmd"), "yes");
  if (options.label) return run_labelled(plan.program, plan.words);
  return run_to_end(plan.program, plan.words, nullptr);
}

std::vector<target_url> targets_of(const run_plan& plan) {
  return plan.targets.empty() || plan.targets == no_targets ? std::vector<target_url>()
                                                            : parse_targets(plan.targets);
}

/// "--gdb 2 ./app": the node would be taken for the program.
void refuse_node_as_program(const debug_request& debug, const std::vector<std::string>& command) {
  if (command.empty() || command.front().empty() ||
      command.front().find_first_not_of("0123456789") != std::string::npos) {
    return;
  }
  for (const auto& [option, is_alone] :
       {std::pair("--gdb", debug.gdb == "0"), std::pair("--valgrind", debug.valgrind == "all")}) {
    if (is_alone) {
      throw usage_problem(fmt::format("{} {}: the node stands behind =, as {}={}; a program of "
                                      "that name is meant by ./{}",
                                      option, command.front(), option, command.front(),
                                      command.front()));
    }
  }
}

int run_app(run_options options, const std::vector<std::string>& command) {
  refuse_node_as_program(options.debug, command);
  if (options.host_files) {
    if (options.spmd) throw usage_problem("--host-files is for plain jobs; leave out --spmd");
    // From the folder of this command, and with its words for what is wrong.
    const auto prefixes = files::parse_prefixes(*options.host_files, "--host-files");
    options.host_files = files::text_of(prefixes);
  }
  if (settings_source().text(settings::row("label")) == "yes") options.label = true;
  if (!options.json && is_refused_under_launcher(options)) return 2;
  if (options.hosts) return run_on_hosts(options, command);
  if (!options.folder.empty() || options.port != 0 || options.exports)
    throw usage_problem("--folder, --port and --export are for the machines of --hosts");
  run_plan plan = make_run_plan(options.processes, options.targets, command, options.spmd);
  debug_plan debug;
  if (is_debugged(options)) {
    const debug_place where = place_of_debuggers();
    debug = plan_debugging(options.debug, targets_of(plan), where);
    if (options.label && !options.debug.gdb.empty() && where.has_terminal) {
      throw usage_problem("--gdb talks to the terminal, where --label has lines wait for their "
                          "end; leave out one of them");
    }
    wrap_host(plan, debug.host, where.path);
  }
  if (!options.json) return start(options, plan, debug);
  json environment{{variable_of_targets(), plan.targets}};
  if (plan.targets.empty()) environment.erase(variable_of_targets());
  if (options.spmd) environment[settings::variable_of(settings::row("spmd"))] = "yes";
  if (options.label) environment[settings::variable_of(settings::row("label"))] = "yes";
  if (options.host_files)
    environment[settings::variable_of(settings::row("host-files"))] = *options.host_files;
  if (options.trace) environment[settings::variable_of(settings::row("trace"))] = *options.trace;
  for (const auto& [name, value] : variables_of(debug))
    environment[name] = value;
  const json document{{"program", plan.program},
                      {"arguments", plan.words},
                      {"environment", std::move(environment)}};
  print(document.dump(2) + '\n');
  return 0;
}

} // namespace

command command_run() {
  auto options = std::make_shared<run_options>();
  run_options& o = *options;
  return {
      .name = "run",
      .text = "Start a farcall program with targets: farcall run [--spmd] [-n N | --targets URLS] "
              "./app [its arguments ...]",
      .footer = fmt::format(
          "Sets {} and executes the program in place of this command. Without -n and --targets, "
          "what the variable says already counts, else it is one shm target. Options come before "
          "the program. With --hosts it runs the program as a "
          "child; the program must have the same path on all machines, and farcall be on the PATH "
          "there. Each run has a key of its own, which goes through ssh. With --spmd, all nodes "
          "run the program's main() as equals, and the exit status is that of the first that "
          "fails; a program that makes a plain farcall::job is refused then. One that makes a job "
          "of equals (farcall::spmd) works without --spmd, too.",
          variable_of_targets()),
      .options =
          {{.name = "-n",
            .value = &o.processes,
            .text = "Number of processes, the host included, as with mpirun: -n 4 is the host and "
                    "three shm targets; with --spmd four nodes, and -n 1 is one"},
           {.name = "--spmd",
            .value = &o.spmd,
            .text = "The program has to make a job of equals: each node runs its main()"},
           {.name = "--label",
            .value = &o.label,
            .text = "Each line that a node prints, to standard output or error, is preceded by the "
                    "node's number: \"2: text\". The program then runs as a child of this command"},
           {.name = "--targets",
            .value = &o.targets,
            .text = std::string(settings::row("targets").text),
            .excludes = "-n"},
           {.name = "--hosts",
            .value = &o.hosts,
            .text = "File with a line for each machine that has targets: host [slots=N] "
                    "[address=NAME] [port=N]. Starts 'farcall serve' there for this run"},
           {.name = "--ssh",
            .value = &o.ssh,
            .text =
                fmt::format("{} (default {}, else '{}')", ssh_setting.text,
                            settings::variable_of(ssh_setting), settings::default_of(ssh_setting))},
           {.name = "--folder",
            .value = &o.folder,
            .text = "With --hosts: working folder of the targets there, which must exist (default: "
                    "the one of this command where that exists, else the one that ssh begins in)"},
           {.name = "--port",
            .value = &o.port,
            .text = "With --hosts: port of the servers on hosts without port=N (default: any that "
                    "is free)",
            .range = {{1, 65535}}},
           {.name = "--export",
            .value = &o.exports,
            .text = "With --hosts: variables for the environment of the targets there: "
                    "NAME[,NAME=VALUE...]; a name alone has its value of here. They go through ssh "
                    "with the key, and not on a command line"},
           {.name = "--host-files",
            .value = &o.host_files,
            .text = std::string(settings::row("host-files").text) +
                    "; with --hosts, the servers allow it"},
           {.name = "--trace", .value = &o.trace, .text = std::string(settings::row("trace").text)},
           {.name = "--gdb",
            .value = &o.debug.gdb,
            .text = "Start a node in gdb: --gdb for the host, --gdb=2 for node 2. On a terminal, "
                    "gdb has that; else it runs the node and prints where it was when it faulted. "
                    "No timeout of the job counts then",
            .otherwise = "0"},
           {.name = "--valgrind",
            .value = &o.debug.valgrind,
            .text = "Start all nodes in valgrind, or one: --valgrind=2. No timeout of the job "
                    "counts then",
            .otherwise = "all"},
           {.name = "--wrap",
            .value = &o.debug.wrap,
            .text = "Command that all nodes are started by ('nice -n 5'), or one ('2:strace -f'); "
                    "several with ; between them"},
           {.name = "--start-timeout-ms",
            .value = &o.start_timeout_ms,
            .text = "With --hosts: how long the servers may take to start (default 30000)",
            .range = {{1, 3'600'000}}},
           {.name = "--json",
            .value = &o.json,
            .text = "Print what would be started, and start nothing"}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return run_app(*options, rest); }};
}

} // namespace farcall::tool
