// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "run_plan.hpp"

#include <tools/common/outcome.hpp>
#include <tools/common/terminal.hpp>
#include <tools/profile/function_table.hpp>
#include <tools/profile/profile_notes.hpp>
#include <tools/profile/sampler.hpp>
#include <tools/profile/text.hpp>
#include <tools/profile/unseen_program.hpp>
#include <tools/profile/unwinder.hpp>
#include <tools/profile/veprof.hpp>
#include <tools/profile/write_profile.hpp>

#include <farcall/transport/process.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

struct prof_options {
  unsigned samples_per_second = 100;
  std::optional<std::string> file;
  std::optional<std::size_t> process;
  std::optional<std::size_t> duration;
  bool per_node = false;
  bool per_thread = false;
  bool also_waiting = false;
  std::string stacks = "fp";
  // Options of SX-Aurora's veprof.
  bool veprof = false;
  std::optional<std::string> command;
  std::optional<std::string> executable;
  bool openmp = false;
  bool verbose = false;
  std::optional<std::string> display;
};

sampler_options sampler_options_of(const prof_options& options) {
  sampler_options sampling;
  sampling.samples_per_second = options.samples_per_second;
  if (options.stacks == "none") sampling.stacks = call_graph::none;
  if (options.stacks == "dwarf") sampling.stacks = call_graph::dwarf;
  return sampling;
}

std::string heading_of(const profile& p) {
  return fmt::format("{} samples in {:.4g} s: {}\n", p.samples.size(),
                     std::chrono::duration<double>(p.duration).count(), valid_text(p.command));
}

/// Keeps only the samples of processes that run a certain program. The paths of the programs are
/// compared after symbolic links are resolved.
void keep_only(profile& p, const std::string& program) {
  std::error_code gone;
  const std::filesystem::path wanted = std::filesystem::weakly_canonical(program, gone);
  std::erase_if(p.samples, [&](const profile_sample& s) {
    return p.threads[s.thread].program != wanted.string();
  });
  if (p.samples.empty()) {
    throw failed_run(fmt::format("--executable {}: no process that was sampled runs this file; see "
                                 "the table without this option",
                                 program));
  }
}

void print_profile(const profile& p, const prof_options& options,
                   const std::vector<std::string>& notes) {
  using per = function_table_options::per;
  if (p.samples.empty()) {
    fmt::print(
        stderr,
        "farcall prof: no samples: no thread has run in user mode for {:.3g} ms, which is one "
        "period; take a higher rate (-s), unless it only sleeps and waits\n",
        1000.0 / options.samples_per_second);
    return;
  }
  std::string text = '\n' + heading_of(p);
  if (options.veprof) {
    text += veprof_table(veprof_of(p, ""));
  } else {
    text += function_table(p, {.group = options.per_node     ? per::node
                                        : options.per_thread ? per::thread
                                                             : per::profile,
                               .also_waiting = options.also_waiting,
                               .max_rows = options.verbose ? 0U : 40U,
                               .width = terminal_width(STDERR_FILENO)});
  }
  // Print the table after the program has ended, and to standard error, so that it is not mixed
  // with the program's results.
  write_text(stderr, text, "standard error");
  for (const std::string& note : notes)
    fmt::print(stderr, "farcall prof: {}\n", note);
}

/// Returns the command line of the program to sample. It consists of the words after the options.
/// If veprof's option --command was given, its value is the first word.
std::vector<std::string> command_of(const prof_options& options, std::vector<std::string> rest) {
  if (options.command) rest.insert(rest.begin(), *options.command);
  if (options.process && !rest.empty())
    throw usage_problem("--pid names a running process; leave out the program");
  if (!options.process && rest.empty()) {
    throw usage_problem("no program given; for example: farcall prof -- ./app its arguments, or "
                        "--pid of a running one");
  }
  return rest;
}

/// Warns the user if the profile will lack the program's work. The warning comes before the program
/// runs, because the program may run long.
void tell_of_unseen(const std::string& program) {
  struct stat file{};
  if (::stat(program.c_str(), &file) != 0) return;
  if (const std::string why = why_unseen(program, file); !why.empty())
    fmt::print(stderr, "farcall prof: {}\n", why);
}

/// If a signal has ended the program, prints the signal, as a shell does for programs that it
/// starts.
void tell_of_signal(int status) {
  constexpr int first = 128; // added by shells
  const char* const name = status > first ? ::sigabbrev_np(status - first) : nullptr;
  if (name == nullptr) return;
  fmt::print(stderr, "farcall prof: the program has ended with status {}, as one killed by SIG{}\n",
             status, name);
}

int run_prof(const prof_options& options, const std::vector<std::string>& rest) {
  // Handle SIGXFSZ, so that writes beyond the limit of file sizes fail with EFBIG. SIG_IGN would
  // have the same effect, but the sampled program would inherit SIG_IGN.
  (void)std::signal(SIGXFSZ, [](int /*signal*/) {});
  if (options.display) {
    if (!rest.empty() || options.process)
      throw usage_problem("--display shows a file; leave out the program and --pid");
    print_veprof(stdout, *options.display);
    return 0;
  }
  // If a standard descriptor is closed, open it. Otherwise a file that is opened later would get
  // its number, and the program would use this file as its input or output.
  open_standard_descriptors();
  const std::vector<std::string> command = command_of(options, rest);
  if (options.duration && !options.process)
    throw usage_problem(
        "--duration is for --pid, and a program is sampled until it ends; leave out --duration");
  const std::optional<std::string> file =
      options.file || !options.veprof ? options.file : std::optional<std::string>("veprof.out");
  if (file) check_profile_file(*file);
  const sampler_options sampling = sampler_options_of(options);
  if (sampling.stacks == call_graph::dwarf && !can_unwind()) {
    throw usage_problem("--call-graph dwarf: this farcall was built without libdw, or for another "
                        "instruction set than x86-64; take fp or none");
  }
  sampled result;
  if (options.process) {
    std::optional<std::chrono::seconds> duration;
    if (options.duration) duration = std::chrono::seconds(*options.duration);
    result = sample_process(static_cast<pid_t>(*options.process), duration, sampling);
  } else {
    const char* const path = std::getenv("PATH");
    const std::string program =
        find_program(command.front(), path == nullptr ? "/usr/bin:/bin" : path);
    tell_of_unseen(program);
    result = sample_program(program, command, sampling);
  }
  if (options.executable) keep_only(result.seen, *options.executable);
  const std::vector<std::string> notes =
      notes_on(result.seen, options.stacks == "fp" && !options.veprof);
  using roots = call_tree_options::roots;
  // Write the file first. Printing the table may end this process by SIGPIPE, if standard error has
  // no reader any more. If the file cannot be written, the table is all that is left of a long run.
  std::exception_ptr failed_write;
  if (file) {
    try {
      write_profile(*file, result.seen,
                    {.root = options.per_node     ? roots::processes
                             : options.per_thread ? roots::threads
                                                  : roots::functions,
                     .notes = notes});
    } catch (const failed_run&) {
      failed_write = std::current_exception();
    }
  }
  print_profile(result.seen, options, notes);
  if (failed_write) std::rethrow_exception(failed_write);
  if (!options.process) tell_of_signal(result.status);
  return result.status;
}

} // namespace

command command_of_profiler() {
  auto options = std::make_shared<prof_options>();
  prof_options& o = *options;
  return {
      .name = "prof",
      .text = "Sample a program and all processes that it starts, without rebuilding it",
      .usage = {"[OPTIONS] -- PROGRAM [ARGUMENT...]", "[OPTIONS] --pid PID", "--display FILE"},
      .footer =
          "The table goes to standard error after the program's end; the exit status is the "
          "program's. Threads are sampled while they run in user mode: sleep and the kernel's work "
          "do not show. Targets on this machine are sampled with their host, targets of 'farcall "
          "serve' on other machines by their servers. Stacks follow frame pointers: build "
          "with -fno-omit-frame-pointer, or "
          "use --call-graph dwarf; otherwise samples show few callers.",
      .examples = {{"farcall prof -- ./app", "Print the functions that took the most time"},
                   {"farcall prof -o app.html -- ./app", "Also make a page with a flame graph"},
                   {"farcall prof --pid 4711 --duration 10", "Sample a running process"}},
      .options = {{.name = "-s,--samplerate",
                   .value = &o.samples_per_second,
                   .takes = "N",
                   .text = "Samples for each second that a thread runs",
                   .range = {{1, 10'000}},
                   .shows_default = true},
                  {.name = "-o",
                   .value = &o.file,
                   .takes = "FILE",
                   .text =
                       "Also write a profile to this file; its ending selects the format: .html "
                       "(page with a flame graph), .svg (flame graph), .collapsed, "
                       ".speedscope.json, .firefox.json, .pb.gz "
                       "(pprof), .pb, .txt, veprof.out"},
                  {.name = "--pid",
                   .value = &o.process,
                   .takes = "PID",
                   .text = "Sample this process, and its descendants, until it ends or a signal "
                           "such as Ctrl-C comes",
                   .range = {{1, 0x7fffffff}}},
                  {.name = "--duration",
                   .value = &o.duration,
                   .takes = "SECONDS",
                   .text = "With --pid: for at most so many seconds",
                   .range = {{1, 10'000'000}}},
                  {.name = "--per-node",
                   .value = &o.per_node,
                   .text = "A table for each node; in a flame graph a frame for each process"},
                  {.name = "--per-thread",
                   .value = &o.per_thread,
                   .text = "A table, and a frame in a flame graph, for each thread",
                   .excludes = "--per-node"},
                  {.name = "--call-graph",
                   .value = &o.stacks,
                   .takes = "WAY",
                   .text = "How callers are found: by frame pointers, by copies of the stack and "
                           "debug information, or not at all",
                   .choices = {"fp", "dwarf", "none"},
                   .shows_default = true},
                  {.name = "--also-waiting",
                   .value = &o.also_waiting,
                   .text = "Count samples of threads that wait or are idle in the table, too"},
                  {.name = "-e,--executable",
                   .value = &o.executable,
                   .takes = "PROGRAM",
                   .text = "Only processes that run this file, as where the program is a script"},
                  {.name = "-v,--verbose",
                   .value = &o.verbose,
                   .text = "All functions, not only the first 40"},
                  {.name = "--veprof",
                   .value = &o.veprof,
                   .text = "A table as veprof_display prints it, and the profile in veprof.out, or "
                           "in the file of -o"},
                  {.name = "-c,--command",
                   .value = &o.command,
                   .takes = "PROGRAM",
                   .text = "The program (an option of veprof); its arguments follow"},
                  {.name = "--openmp",
                   .value = &o.openmp,
                   .text = "Accepted like by veprof: all threads are sampled anyway"},
                  {.name = "--display",
                   .value = &o.display,
                   .takes = "FILE",
                   .text = "Show a veprof.out, of farcall or of SX-Aurora, like veprof_display"}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return run_prof(*options, rest); }};
}

} // namespace farcall::tool
