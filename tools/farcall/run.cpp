// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "debug_plan.hpp"
#include "exports.hpp"
#include "hosts.hpp"
#include "labelled_output.hpp"
#include "remote_servers.hpp"
#include "run_plan.hpp"

#include <tools/common/json.hpp>
#include <tools/common/key_in_memory.hpp>
#include <tools/common/mount_program.hpp>
#include <tools/common/openmp_plugin.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>
#include <farcall/job/passed_pipes.hpp>
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

/// Heap size of a node in valgrind, in bytes, if the user has set none. It is small, because
/// valgrind searches all of the heap for leaks.
constexpr const char* little_heap = "268435456";

struct run_options {
  std::optional<std::size_t> processes;
  std::optional<std::string> targets;
  std::optional<std::string> hosts;
  std::optional<std::string> host_files;
  std::optional<std::string> host_files_by;
  std::optional<std::string> trace;
  bool spmd = false;
  bool openmp = false;
  bool restart = false;
  bool label = false;
  std::string ssh;
  std::string folder;
  std::size_t port = 0;
  std::optional<std::string> exports;
  debug_request debug;
  unsigned start_timeout_ms = 30'000;
  bool json = false;
};

bool is_debugged(const run_options& options) {
  const debug_request& debug = options.debug;
  return !debug.gdb.empty() || !debug.valgrind.empty() || !debug.wrap.empty();
}

void set_variable(const std::string& name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile.
  if (setenv(name.c_str(), value.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set {}: {}", name, reason_text(errno)));
}

/// Refuses -n and --hosts if a launcher has started several processes of this command. Each process
/// would start all targets of the option, whereas without the option the processes form one job.
/// Returns true if the options are refused. One of the processes, or each, has then printed the
/// reason.
bool is_refused_under_launcher(const run_options& options) {
  if (!options.processes && !options.hosts) return false;
  const std::string which = detail::process_manager_of({});
  // With the process manager "none", each process starts a separate job.
  if (which == "none") return false;
  const std::string option =
      options.hosts ? std::string("--hosts") : fmt::format("-n {}", *options.processes);
  const bool is_refused = refuse_launched_together(which, [&](const launched_processes& others) {
    fmt::print(stderr,
               "farcall run: a launcher ({}) has started {} processes of this command, and each "
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

/// True if targets on this machine may use the host's files through farcall: if file forwarding is
/// switched on, or if it is not set and the targets have a command line ("exec:") or a wrapping
/// command, which may put them into a sandbox.
bool may_forward_here(const run_options& options, const std::string& targets) {
  const std::string wanted = settings_source().text(settings::row("io-forward")).value_or("auto");
  if (wanted != "auto") return wanted != "never";
  return targets.find("exec:") != std::string::npos || !options.debug.wrap.empty();
}

/// True if targets on this machine use all of the host's files through farcall.
bool forwards_all_here() {
  return settings_source().text(settings::row("io-forward")).value_or("auto") == "always";
}

/// Passes the option --host-files to the program, by variables of the environment.
void hand_on_host_files(const run_options& options, const std::string& targets) {
  if (!options.host_files) return;
  set_variable(settings::row("host-files"), *options.host_files);
  if (!may_forward_here(options, targets)) return;
  const bool may_mount = options.host_files_by || forwards_all_here();
  const std::string program = prepare_host_files(may_mount ? options.host_files_by : "preload");
  if (program.empty()) return;
  const std::string wrap = settings::variable_of(settings::row("wrap"));
  if (std::getenv(wrap.c_str()) != nullptr || !options.debug.wrap.empty()) {
    throw usage_problem(fmt::format("{} and --host-files-by={} both start the targets; leave out "
                                    "one of them, or use --host-files-by=preload",
                                    options.debug.wrap.empty() ? wrap : "--wrap",
                                    options.host_files_by.value_or("auto")));
  }
  set_variable(wrap, "'" + program + "'");
}

/// Pipe into which the started program writes if it starts a job.
class job_notice {
 public:
  job_notice() {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK) != 0)
      throw failed_run(fmt::format("cannot make a pipe: {}", reason_text(errno)));
    ours_ = unique_fd(ends[0]);
    programs_ = unique_fd(ends[1]);
    (void)::fcntl(ours_.get(), F_SETFD, FD_CLOEXEC);
    set_variable(job_notice_variable, text_of_pipe(programs_.get()));
  }

  [[nodiscard]] bool has_come() const {
    char byte = 0;
    return ::read(ours_.get(), &byte, 1) == 1;
  }

 private:
  unique_fd ours_;
  unique_fd programs_; ///< inherited by the program
};

/// Returns the option that names the targets, or an empty text if there is none.
std::string option_of_targets(const run_options& options) {
  if (options.hosts) return "--hosts";
  if (options.processes) return fmt::format("-n {}", *options.processes);
  return options.targets ? "--targets" : "";
}

/// Runs the program as a child. Tells the user if the program has made no job although an option
/// names its targets. block_signals() must have been called before any thread was started.
int run_as_child(const run_options& options, const run_plan& plan, labelled_output* prints_to) {
  const job_notice notice;
  const int status = run_to_end(plan.program, plan.words, prints_to);
  const std::string option = option_of_targets(options);
  if (!option.empty() && !notice.has_come()) {
    fmt::print(stderr,
               "farcall run: {} has ended and made no job, so {} had no effect; give a program "
               "that makes one (farcall::job, fc_job_start, farcall.Job)\n",
               plan.words.front(), option);
  }
  return status;
}

/// Variables for the program's environment with --openmp, and the path of farcall-openmp-target,
/// which the targets run.
struct openmp_plan {
  std::vector<std::pair<std::string, std::string>> variables;
  std::string target;
};

/// Makes the plan of a run with --openmp, and prints what it does. Without the option, the plan is
/// empty. Throws usage_problem for a program whose libomptarget needs another plugin, and
/// failed_run if this farcall was built without the plugin.
openmp_plan plan_openmp(const run_options& options, const run_plan& plan) {
  if (!options.openmp) {
    if (options.restart) throw usage_problem("--restart is for --openmp; give both, or none");
    return {};
  }
  if (options.spmd) throw usage_problem("--openmp makes a plain job; leave out --spmd");
  const openmp_files files = find_openmp_plugin();
  const std::string version = omptarget_version(plan.program, needed_libraries(plan.program));
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  openmp_plan openmp{
      .variables = {{"LD_LIBRARY_PATH", path_with(files.folder, path == nullptr ? "" : path)}},
      .target = files.target};
  if (options.restart) openmp.variables.emplace_back("FARCALL_OPENMP_RESTART", "1");
  fmt::print(
      stderr,
      "farcall: OpenMP: the targets of the job are the devices of {}, {}; the plugin is in {}\n",
      plan.program,
      version.empty() ? "which may use libomptarget by its libraries"
                      : fmt::format("which uses libomptarget of LLVM {}", version),
      files.folder);
  return openmp;
}

/// Runs the program as a child and labels the lines that its nodes print. block_signals() must have
/// been called before any thread was started.
int run_labelled(const run_options& options, const run_plan& plan) {
  labelled_output prints_to;
  set_variable(settings::row("label"), "yes");
  set_variable(lines_variable, text_of(prints_to.lines()));
  return run_as_child(options, plan, &prints_to);
}

/// Returns the properties of the environment on which a debugger depends: the path of this command,
/// the variable PATH, and whether there is a terminal.
debug_place place_of_debuggers() {
  const char* const path = std::getenv("PATH");
  return {own_program(), path == nullptr ? "/usr/bin:/bin" : path,
          ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0};
}

/// Puts the command line of a debugger before the command line of the host's program.
void wrap_host(run_plan& plan, const std::vector<std::string>& wrapper, const std::string& path) {
  if (wrapper.empty()) return;
  // Give the debugger the path that was found here. By the name alone, the debugger might find
  // another program.
  plan.words.front() = plan.program;
  plan.words.insert(plan.words.begin(), wrapper.begin(), wrapper.end());
  plan.program = find_program(wrapper.front(), path);
}

/// Returns the environment variables that the host and its targets need for the debuggers of a
/// plan.
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

/// Replaces standard input by /dev/null, because the terminal belongs to the debugger of a target.
/// The host is in the terminal's background, so it would be stopped if it read from the terminal.
void leave_terminal() {
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0)
    throw failed_run("cannot open /dev/null: " + reason_text(errno));
}

int start(const run_options& options, const run_plan& plan, const debug_plan& debug,
          const openmp_plan& openmp) {
  hand_on_host_files(options, plan.targets);
  for (const auto& [name, value] : openmp.variables)
    set_variable(name, value);
  if (options.trace) set_variable(settings::row("trace"), *options.trace);
  for (const auto& [name, value] : variables_of(debug))
    set_variable(name, value);
  if (debug.takes_terminal) leave_terminal();
  if (plan.passes_targets_on) set_variable(settings::row("targets"), plan.targets);
  if (options.spmd) set_variable(settings::row("spmd"), "yes");
  if (options.label) {
    block_signals();
    return run_labelled(options, plan);
  }
  // A program with farcall replaces this process. Another one, such as an interpreter or /bin/ls,
  // runs as a child, so that this process can tell the user if there was no job.
  if (!option_of_targets(options).empty() && !is_debugged(options) &&
      !contains_farcall(plan.program)) {
    block_signals();
    return run_as_child(options, plan, nullptr);
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

/// Returns the working folder of this command. Returns an empty text if the folder has been
/// removed.
std::string folder_of_this_command() {
  std::error_code none;
  return std::filesystem::current_path(none).string();
}

/// For each host, returns the command line that starts the host's server.
std::vector<std::vector<std::string>> serve_commands(const run_options& options,
                                                     const std::vector<host_entry>& hosts,
                                                     const run_plan& plan,
                                                     const openmp_plan& openmp) {
  // The program is expected at the same path on all machines, because machines that work together
  // usually share their files.
  served_program served;
  served.program = std::filesystem::absolute(plan.program).lexically_normal();
  served.arguments = {plan.words.begin() + 1, plan.words.end()};
  if (options.openmp) {
    served.program = openmp.target;
    served.arguments.clear();
  }
  served.needs_folder = !options.folder.empty();
  served.folder = served.needs_folder ? options.folder : folder_of_this_command();
  served.uses_host_files = options.host_files.has_value();
  served.host_files_by = options.host_files_by.value_or("");
  served.takes_exports = options.exports.has_value();
  std::vector<std::vector<std::string>> commands;
  commands.reserve(hosts.size());
  for (const host_entry& host : hosts)
    commands.push_back(serve_command(ssh_command(options), host, served));
  return commands;
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
  // Parse the exported variables before the servers are started, because the list may be invalid.
  std::string exports;
  if (options.exports) exports = encode_exports(parse_exports(*options.exports));
  const openmp_plan openmp = plan_openmp(options, plan);
  const auto commands = serve_commands(options, hosts, plan, openmp);
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
  for (const auto& [name, value] : openmp.variables)
    set_variable(name, value);
  if (options.trace) set_variable(settings::row("trace"), *options.trace);
  set_variable(settings::row("targets"), urls);
  set_variable(settings::row("key"), key.path());
  if (options.spmd) set_variable(settings::row("spmd"), "yes");
  if (options.label) return run_labelled(options, plan);
  return run_as_child(options, plan, nullptr);
}

std::vector<target_url> targets_of(const run_plan& plan) {
  return plan.targets.empty() || plan.targets == no_targets ? std::vector<target_url>()
                                                            : parse_targets(plan.targets);
}

/// Throws usage_problem for a command line such as "--gdb 2 ./app". The user means node 2, but the
/// option takes its node only in the form --gdb=2, so "2" would be the program.
void refuse_node_as_program(const debug_request& debug, const std::vector<std::string>& command) {
  if (command.empty() || command.front().empty() ||
      command.front().find_first_not_of("0123456789") != std::string::npos) {
    return;
  }
  for (const auto& [option, is_alone] :
       {std::pair("--gdb", debug.gdb == "0"), std::pair("--valgrind", debug.valgrind == "all")}) {
    if (is_alone) {
      throw usage_problem(fmt::format(
          "{} {}: write the node after =, as {}={}; write ./{} for a program of that name", option,
          command.front(), option, command.front(), command.front()));
    }
  }
}

int run_app(run_options options, const std::vector<std::string>& command) {
  refuse_node_as_program(options.debug, command);
  if (options.host_files) {
    if (options.spmd) throw usage_problem("--host-files is for plain jobs; leave out --spmd");
    // Parse the folder names of --host-files here. Relative names then count from this command's
    // folder, and an error names the option.
    const auto prefixes = files::parse_prefixes(*options.host_files, "--host-files");
    options.host_files = files::text_of(prefixes);
  } else if (options.host_files_by) {
    throw usage_problem("--host-files-by is for --host-files; give both, or none");
  }
  if (settings_source().text(settings::row("label")) == "yes") options.label = true;
  if (!options.json && is_refused_under_launcher(options)) return 2;
  if (options.hosts) return run_on_hosts(options, command);
  if (!options.folder.empty() || options.port != 0 || options.exports)
    throw usage_problem("--folder, --port and --export are for the machines of --hosts; give "
                        "--hosts, or leave them out");
  run_plan plan = make_run_plan(options.processes, options.targets, command, options.spmd);
  const openmp_plan openmp = plan_openmp(options, plan);
  debug_plan debug;
  if (is_debugged(options)) {
    const debug_place where = place_of_debuggers();
    debug = plan_debugging(options.debug, targets_of(plan), where);
    if (options.label && !options.debug.gdb.empty() && where.has_terminal) {
      throw usage_problem("--gdb uses the terminal, and --label delays each line until its end; "
                          "leave out one of them");
    }
    wrap_host(plan, debug.host, where.path);
  }
  if (!options.json) return start(options, plan, debug, openmp);
  json environment{{variable_of_targets(), plan.targets}};
  if (!plan.passes_targets_on) environment.erase(variable_of_targets());
  if (options.spmd) environment[settings::variable_of(settings::row("spmd"))] = "yes";
  if (options.label) environment[settings::variable_of(settings::row("label"))] = "yes";
  if (options.host_files)
    environment[settings::variable_of(settings::row("host-files"))] = *options.host_files;
  if (options.trace) environment[settings::variable_of(settings::row("trace"))] = *options.trace;
  for (const auto& [name, value] : openmp.variables)
    environment[name] = value;
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
      .text = "Start a farcall program with targets",
      .usage = {"[OPTIONS] PROGRAM [ARGUMENT...]"},
      .footer = fmt::format(
          "Sets {} and executes the program in place of this command. A program without "
          "farcall in it, such as an interpreter, runs as a child, and the command says if it "
          "made no job. Without -n and --targets, "
          "the variable's present value counts, or else one shm target. Options come before "
          "the program. With --hosts it runs the program as a "
          "child; the program must have the same path on all machines, and farcall be on the PATH "
          "there. Each run has a key of its own, which goes through ssh. With --spmd, all nodes "
          "run the program's main() as equals, and the exit status is taken from the first node "
          "that fails; a program that makes a plain farcall::job is refused then. A program that "
          "makes a job of equals (farcall::spmd) works without --spmd, too.",
          variable_of_targets()),
      .examples = {{"farcall run -n 4 ./app", "Start the host and three targets on this machine"},
                   {"farcall run --hosts machines ./app",
                    "Start targets on the machines of a file"},
                   {"farcall run --spmd -n 4 --label ./app",
                    "Start four equal nodes, and label the lines that they print"},
                   {"farcall run --gdb=1 ./app", "Start node 1 in gdb"}},
      .options =
          {{.name = "-n",
            .value = &o.processes,
            .takes = "N",
            .text = "Number of processes, the host included, as with mpirun: -n 4 is the host and "
                    "three shm targets; with --spmd four nodes, and -n 1 is one"},
           {.name = "--spmd",
            .value = &o.spmd,
            .text = "The program has to make a job of equals: each node runs its main()"},
           {.name = "--openmp",
            .value = &o.openmp,
            .text = "The program is an OpenMP program of clang-15 or clang-16, unchanged: the "
                    "targets are its devices. With --hosts, the servers run farcall-openmp-target"},
           {.name = "--restart",
            .value = &o.restart,
            .text = "With --openmp: a target that has ended between two regions, with nothing "
                    "mapped on it, is started again"},
           {.name = "--label",
            .value = &o.label,
            .text = "Each line that a node prints, to standard output or error, is preceded by the "
                    "node's number: \"2: text\". The program then runs as a child of this command"},
           {.name = "--targets",
            .value = &o.targets,
            .takes = "URLS",
            .text = std::string(settings::row("targets").text),
            .excludes = "-n"},
           {.name = "--hosts",
            .value = &o.hosts,
            .takes = "FILE",
            .text = "File with a line for each machine that has targets: host [slots=N] "
                    "[address=NAME] [port=N]. Starts 'farcall serve' there for this run"},
           {.name = "--ssh",
            .value = &o.ssh,
            .takes = "COMMAND",
            .text =
                fmt::format("{} (default {}, else '{}')", ssh_setting.text,
                            settings::variable_of(ssh_setting), settings::default_of(ssh_setting))},
           {.name = "--folder",
            .value = &o.folder,
            .takes = "FOLDER",
            .text = "With --hosts: working folder of the targets, which must exist there (default: "
                    "this command's folder if it exists there, else ssh's initial folder)"},
           {.name = "--port",
            .value = &o.port,
            .takes = "PORT",
            .text = "With --hosts: port of the servers on hosts without port=N (default: any that "
                    "is free)",
            .range = {{1, 65535}}},
           {.name = "--export",
            .value = &o.exports,
            .takes = "VARIABLES",
            .text = "With --hosts: variables for the environment of the targets there: "
                    "NAME[,NAME=VALUE...]; a name alone takes its value from here. They are sent "
                    "through ssh with the key, and not on a command line"},
           {.name = "--host-files",
            .value = &o.host_files,
            .takes = "FOLDERS",
            .text = std::string(settings::row("host-files").text) +
                    "; with --hosts, the servers allow it"},
           {.name = "--host-files-by",
            .value = &o.host_files_by,
            .takes = "WAY",
            .text = std::string(settings::row("host-files-by").text),
            .choices = {"auto", "mount", "preload"}},
           {.name = "--trace",
            .value = &o.trace,
            .takes = "FILE",
            .text = std::string(settings::row("trace").text)},
           {.name = "--gdb",
            .value = &o.debug.gdb,
            .takes = "NODE",
            .text = "Start a node in gdb: --gdb for the host, --gdb=2 for node 2. On a terminal, "
                    "gdb uses it; else gdb runs the node and prints its stacks if it faults. "
                    "Disables the job's timeouts",
            .otherwise = "0"},
           {.name = "--valgrind",
            .value = &o.debug.valgrind,
            .takes = "NODE",
            .text =
                "Start all nodes in valgrind, or one: --valgrind=2. Disables the job's timeouts",
            .otherwise = "all"},
           {.name = "--wrap",
            .value = &o.debug.wrap,
            .takes = "COMMAND",
            .text = "Command that starts all nodes ('nice -n 5'), or one node ('2:strace -f'); "
                    "separate several with ;"},
           {.name = "--start-timeout-ms",
            .value = &o.start_timeout_ms,
            .takes = "MS",
            .text = "With --hosts: how long the servers may take to start (default 30000)",
            .range = {{1, 3'600'000}}},
           {.name = "--json", .value = &o.json, .text = "Print the commands, and start nothing"}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return run_app(*options, rest); }};
}

} // namespace farcall::tool
