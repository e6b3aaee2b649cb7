#include "commands.hpp"
#include "run_plan.hpp"

#include <tools/common/outcome.hpp>
#include <tools/profile/parts.hpp>
#include <tools/profile/plain_table.hpp>
#include <tools/profile/sampler.hpp>
#include <tools/profile/unwinder.hpp>
#include <tools/profile/write_profile.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

struct prof_options {
  unsigned samples_per_second = 100;
  std::optional<std::string> file;
  std::optional<std::size_t> process;
  std::optional<std::size_t> duration;
  bool per_node = false;
  bool per_thread = false;
  std::string stacks = "fp";
};

sampler_options sampler_options_of(const prof_options& options) {
  sampler_options sampling;
  sampling.samples_per_second = options.samples_per_second;
  if (options.stacks == "none") sampling.stacks = call_graph::none;
  if (options.stacks == "dwarf") sampling.stacks = call_graph::dwarf;
  return sampling;
}

/// What is worth knowing before one reads the table.
std::string heading_of(const profile& p) {
  const auto doing = [&](activity what) {
    const auto count = std::ranges::count(p.samples, what, &profile_sample::does);
    return 100.0 * static_cast<double>(count) / static_cast<double>(p.samples.size());
  };
  std::set<std::uint32_t> threads;
  for (const profile_sample& s : p.samples)
    threads.insert(s.thread);
  const std::string lost =
      p.lost == 0 ? ""
                  : fmt::format("; the kernel has lost {} samples: take a lower rate (-s)", p.lost);
  return fmt::format("{} samples of {} threads, {:.4g} s of processor time in {:.4g} s{}\n"
                     "computes {:.1f} %, waits for offloads {:.1f} %, is idle {:.1f} %\n",
                     p.samples.size(), threads.size(),
                     static_cast<double>(p.samples.size()) * p.seconds_per_sample(),
                     std::chrono::duration<double>(p.duration).count(), lost,
                     doing(activity::computes), doing(activity::waits), doing(activity::idle));
}

void print_profile(const profile& p, const prof_options& options) {
  if (p.samples.empty()) {
    fmt::print(stderr, "farcall prof: no samples: nothing has run for long enough; take a higher "
                       "rate (-s)\n");
    return;
  }
  // Behind what the program has printed, and not among its results.
  if (!options.per_node && !options.per_thread) {
    fmt::print(stderr, "\n{}\n", heading_of(p));
    write_plain_table(stderr, p);
    return;
  }
  for (const profile_part& part :
       parts_of(p, options.per_node ? parts_by::node : parts_by::thread)) {
    fmt::print(stderr, "\n{}: {}\n", part.title, heading_of(part.samples));
    write_plain_table(stderr, part.samples);
  }
}

int run_prof(const prof_options& options, const std::vector<std::string>& command) {
  if (options.process && !command.empty())
    throw usage_problem("--pid names a running process; leave out the program");
  if (!options.process && command.empty()) {
    throw usage_problem("no program given; for example: farcall prof -- ./app its arguments, or "
                        "--pid of a running one");
  }
  if (options.duration && !options.process)
    throw usage_problem("--duration is for --pid; a program is sampled until it ends");
  if (options.file) check_profile_format(*options.file);
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
    result = sample_program(program, command, sampling);
  }
  print_profile(result.seen, options);
  if (options.file) write_profile(*options.file, result.seen);
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
          "do not show. Targets on this machine are sampled with their host, those on other "
          "machines are not. Stacks follow frame pointers: build with -fno-omit-frame-pointer, or "
          "take --call-graph dwarf; else a sample shows few callers.",
      .options = {{.name = "-s",
                   .value = &o.samples_per_second,
                   .text = "Samples for each second that a thread runs",
                   .range = {{1, 10'000}},
                   .shows_default = true},
                  {.name = "-o",
                   .value = &o.file,
                   .text = "Also write a profile to this file; its ending says in which format"},
                  {.name = "--pid",
                   .value = &o.process,
                   .text = "Sample this process, and its descendants, until it ends or a signal "
                           "such as Ctrl-C comes",
                   .range = {{1, 0x7fffffff}}},
                  {.name = "--duration",
                   .value = &o.duration,
                   .text = "With --pid: for at most so many seconds",
                   .range = {{1, 10'000'000}}},
                  {.name = "--per-node", .value = &o.per_node, .text = "A table for each node"},
                  {.name = "--per-thread",
                   .value = &o.per_thread,
                   .text = "A table for each thread",
                   .excludes = "--per-node"},
                  {.name = "--call-graph",
                   .value = &o.stacks,
                   .text = "Where callers come from: frame pointers, copies of the stack and "
                           "debug information, or nowhere",
                   .choices = {"fp", "dwarf", "none"},
                   .shows_default = true}},
      .takes_rest = command::rest::after_options,
      .run = [options](const std::vector<std::string>& rest) { return run_prof(*options, rest); }};
}

} // namespace farcall::tool
