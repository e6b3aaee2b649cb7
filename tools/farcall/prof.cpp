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
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
  // As veprof has them.
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

/// Of the processes that run that program, wherever the path to it leads through.
void keep_only(profile& p, const std::string& program) {
  std::error_code gone;
  const std::filesystem::path wanted = std::filesystem::weakly_canonical(program, gone);
  std::erase_if(p.samples, [&](const profile_sample& s) {
    return p.threads[s.thread].program != wanted.string();
  });
  if (p.samples.empty()) {
    throw failed_run(
        fmt::format("--executable {}: no process that was sampled runs this file", program));
  }
}

void print_profile(const profile& p, const prof_options& options) {
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
    text += veprof_table(parse_veprof(veprof_text(p, ""), "the profile"));
  } else {
    text += function_table(p, {.group = options.per_node     ? per::node
                                        : options.per_thread ? per::thread
                                                             : per::profile,
                               .also_waiting = options.also_waiting,
                               .most_rows = options.verbose ? 0U : 40U,
                               .width = terminal_width(STDERR_FILENO)});
  }
  // Behind what the program has printed, and not among its results.
  write_text(stderr, text, "standard error");
  for (const std::string& note : notes_on(p, options.stacks == "fp" && !options.veprof))
    fmt::print(stderr, "farcall prof: {}\n", note);
}

/// The words to run: those behind the options, or, as veprof has it, behind --command.
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

/// Before the program runs: it may take long.
void tell_of_unseen(const std::string& program) {
  struct stat file{};
  if (::stat(program.c_str(), &file) != 0) return;
  if (const std::string why = why_unseen(program, file); !why.empty())
    fmt::print(stderr, "farcall prof: {}\n", why);
}

/// A shell tells it of programs that it has started itself.
void tell_of_signal(int status) {
  constexpr int first = 128; // which shells add
  const char* const name = status > first ? ::sigabbrev_np(status - first) : nullptr;
  if (name == nullptr) return;
  fmt::print(stderr, "farcall prof: the program has ended with status {}, as one killed by SIG{}\n",
             status, name);
}

int run_prof(const prof_options& options, const std::vector<std::string>& rest) {
  if (options.display) {
    if (!rest.empty() || options.process)
      throw usage_problem("--display shows a file; leave out the program and --pid");
    print_veprof(stdout, *options.display);
    return 0;
  }
  // Else what is opened here would be the program's output, or take what is meant for ours.
  open_standard_descriptors();
  const std::vector<std::string> command = command_of(options, rest);
  if (options.duration && !options.process)
    throw usage_problem("--duration is for --pid; a program is sampled until it ends");
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
  using roots = call_tree_options::roots;
  // First the file: where nobody reads standard error any more, the table ends this process.
  if (file) {
    write_profile(*file, result.seen,
                  options.per_node     ? roots::processes
                  : options.per_thread ? roots::threads
                                       : roots::functions);
  }
  print_profile(result.seen, options);
  if (!options.process) tell_of_signal(result.status);
  return result.status;
}

} // namespace

command command_prof() {
  auto options = std::make_shared<prof_options>();
  prof_options& o = *options;
  return {
      .name = "prof",
      .text =
          "Sample what a program and all processes that it starts do, without building anything "
          "anew: farcall prof [-o FILE] -- ./app [its arguments ...], or farcall prof --pid PID",
      .footer =
          "The table goes to standard error when the program has ended, and the exit status is the "
          "program's. Threads are sampled while they run in user mode: sleep and the kernel's work "
          "do not show. Targets on this machine are sampled with their host, those of "
          "'farcall serve' on other machines by their servers. Stacks follow frame pointers: build "
          "with -fno-omit-frame-pointer, or "
          "take --call-graph dwarf; else a sample shows few callers.",
      .options = {{.name = "-s,--samplerate",
                   .value = &o.samples_per_second,
                   .text = "Samples for each second that a thread runs",
                   .range = {{1, 10'000}},
                   .shows_default = true},
                  {.name = "-o",
                   .value = &o.file,
                   .text =
                       "Also write a profile to this file; its ending says in which format: .svg "
                       "(flame graph), .collapsed, .speedscope.json, .firefox.json, .pb.gz "
                       "(pprof), .pb, .txt, veprof.out"},
                  {.name = "--pid",
                   .value = &o.process,
                   .text = "Sample this process, and its descendants, until it ends or a signal "
                           "such as Ctrl-C comes",
                   .range = {{1, 0x7fffffff}}},
                  {.name = "--duration",
                   .value = &o.duration,
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
                   .text = "Where callers come from: frame pointers, copies of the stack and "
                           "debug information, or nowhere",
                   .choices = {"fp", "dwarf", "none"},
                   .shows_default = true},
                  {.name = "--also-waiting",
                   .value = &o.also_waiting,
                   .text = "Count samples of threads that wait or are idle in the table, too"},
                  {.name = "-e,--executable",
                   .value = &o.executable,
                   .text = "Only processes that run this file, as where the program is a script"},
                  {.name = "-v,--verbose",
                   .value = &o.verbose,
                   .text = "All functions, not only the first 40"},
                  {.name = "--veprof",
                   .value = &o.veprof,
                   .text = "A table as veprof_display prints it, and the profile in veprof.out, or "
                           "in what -o names"},
                  {.name = "-c,--command",
                   .value = &o.command,
                   .text = "The program, as veprof has it; its arguments follow"},
                  {.name = "--openmp",
                   .value = &o.openmp,
                   .text = "As veprof has it: all threads are sampled anyway"},
                  {.name = "--display",
                   .value = &o.display,
                   .text = "Show this veprof.out, ours or one of SX-Aurora's, as veprof_display "
                           "does"}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return run_prof(*options, rest); }};
}

} // namespace farcall::tool
