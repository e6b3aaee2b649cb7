// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>
#include <tools/common/terminal.hpp>
#include <tools/top/job_sampler.hpp>
#include <tools/top/metrics.hpp>
#include <tools/top/node_table.hpp>
#include <tools/top/screen.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct top_options {
  std::optional<std::size_t> pid;
  std::size_t delay_ms = 1000;
  std::optional<std::size_t> iterations;
  bool once = false;
  bool json_lines = false;
  std::string sort = "node";
  std::optional<std::string> listen;
};

node_order order_named(const std::string& name) {
  if (name == "calls") return node_order::calls;
  if (name == "p99") return node_order::p99;
  if (name == "queue") return node_order::queue;
  if (name == "busy") return node_order::busy;
  if (name == "cpu") return node_order::processor;
  if (name == "memory") return node_order::memory;
  return node_order::node;
}

std::string text_of(const unreadable_counters& others) {
  return fmt::format("the counters of {} processes cannot be read: {}", others.number, others.why);
}

[[noreturn]] void throw_no_job(const top_options& options, const unreadable_counters& others) {
  const std::string also = others.number == 0 ? "" : "; " + text_of(others);
  if (options.pid) {
    throw failed_run(fmt::format(
        "process {} is in no job of farcall that you may read; leave out --pid to see all{}",
        *options.pid, also));
  }
  throw failed_run("no job of yours runs on this machine; start one, or try as root or in its "
                   "container" +
                   also);
}

std::string title_of(const job_sample& sample, const std::vector<node_rates>& nodes,
                     const unreadable_counters& others) {
  double calls = 0;
  for (const node_rates& n : nodes)
    calls += n.calls;
  const std::string title =
      fmt::format("farcall top: {} nodes, {} processes here, {} calls/s", nodes.size(),
                  sample.processes.size(), format_number(calls));
  return others.number == 0 ? title : fmt::format("{}; {}", title, text_of(others));
}

job_sample first_sample(job_sampler& sampler, const top_options& options) {
  job_sample first = sampler.take();
  if (first.processes.empty()) throw_no_job(options, sampler.others());
  return first;
}

/// Prints a table after each interval, below the previous table. This form is for files, and for
/// programs that read the output.
int print_samples(const top_options& options) {
  job_sampler sampler(options.pid);
  job_sample before = first_sample(sampler, options);
  if (sampler.others().number != 0)
    fmt::print(stderr, "farcall top: {}\n", text_of(sampler.others()));
  const std::size_t times = options.once ? 1 : options.iterations.value_or(SIZE_MAX);
  for (std::size_t n = 0; n < times; ++n) {
    sampler.watch(before.at + milliseconds(options.delay_ms), [] { return false; });
    job_sample after = sampler.take();
    std::vector<node_rates> nodes = rates_between(before, after);
    sort_nodes(nodes, order_named(options.sort));
    if (options.json_lines) {
      const std::chrono::duration<double> seconds = after.at - before.at;
      print(json{{"seconds", seconds.count()}, {"nodes", nodes_json(nodes)}}.dump() + '\n');
    } else {
      std::string text = n == 0 ? "" : "\n";
      for (const std::string& line : node_table(nodes, terminal_width(STDOUT_FILENO).value_or(0)))
        text += line + '\n';
      print(text);
    }
    if (after.processes.empty()) break;
    before = std::move(after);
  }
  return 0;
}

int show_live(const top_options& options) {
  job_sampler sampler(options.pid);
  job_sample before = first_sample(sampler, options);
  screen shown;
  std::vector<node_rates> nodes;
  std::string title = "farcall top";
  for (std::size_t n = 0; n < options.iterations.value_or(SIZE_MAX);) {
    shown.draw(title, nodes);
    bool has_keys = false;
    sampler.watch(steady_clock::now() + milliseconds(options.delay_ms),
                  [&] { return has_keys = shown.take_keys(); });
    if (shown.asked().quits) break;
    if (shown.asked().is_paused) continue;
    // A key takes effect at once, because the loop draws again. The key does not end the interval,
    // so no sample is taken.
    if (has_keys && steady_clock::now() - before.at < milliseconds(options.delay_ms)) continue;
    job_sample after = sampler.take();
    nodes = rates_between(before, after);
    title = after.processes.empty() ? "farcall top: the job has ended"
                                    : title_of(after, nodes, sampler.others());
    before = std::move(after);
    ++n;
  }
  return 0;
}

/// Returns a line for each column.
std::string text_of_columns() {
  std::string text;
  for (const column_meaning& c : column_meanings())
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", c.columns, c.meaning);
  return text;
}

int run_top(const top_options& options) {
  if (options.listen) {
    if (options.once || options.json_lines || options.iterations) {
      throw usage_problem("--listen serves until a signal arrives; leave out --once, --json and "
                          "--iterations");
    }
    job_sampler sampler(options.pid);
    serve_metrics(
        *options.listen, [&] { return metrics_text(sampler.take()); },
        [](const std::string& where) { print(fmt::format("http://{}/metrics\n", where)); });
    return 0;
  }
  const bool has_terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (options.once || options.json_lines || !has_terminal) return print_samples(options);
  return show_live(options);
}

} // namespace

command command_top() {
  auto options = std::make_shared<top_options>();
  top_options& o = *options;
  return {
      .name = "top",
      .text = "Show running jobs' nodes: calls, bytes, queues, processor and memory",
      .footer =
          std::string(
              "Shows all jobs of this user on this machine, and reads what their processes count "
              "anyway: they are not disturbed. The nodes of other machines have the counts "
              "of the nodes here. Without a terminal it prints a table for each interval; on a "
              "terminal, the key ? explains the keys and columns. Columns:\n") +
          text_of_columns(),
      .examples = {{"farcall top", "Show all jobs of this user until q is pressed"},
                   {"farcall top --once --pid 4711", "Print the job of a process once"},
                   {"farcall top --listen 127.0.0.1:9464", "Serve the counters to Prometheus"}},
      .options = {{.name = "--pid",
                   .value = &o.pid,
                   .takes = "PID",
                   .text = "Only the job of this process",
                   .range = {{1, 1U << 30}}},
                  {.name = "--delay",
                   .value = &o.delay_ms,
                   .takes = "MS",
                   .text = "Milliseconds between two tables",
                   .range = {{50, 3'600'000}},
                   .shows_default = true},
                  {.name = "--iterations",
                   .value = &o.iterations,
                   .takes = "N",
                   .text = "End after that many tables",
                   .range = {{1, 1U << 30}}},
                  {.name = "--once", .value = &o.once, .text = "Print one table, and end"},
                  {.name = "--json",
                   .value = &o.json_lines,
                   .text = "Print a JSON document on a line for each interval"},
                  {.name = "--sort",
                   .value = &o.sort,
                   .takes = "COLUMN",
                   .text = "Sort by this column",
                   .choices = {"node", "calls", "p99", "queue", "busy", "cpu", "memory"},
                   .shows_default = true},
                  {.name = "--listen",
                   .value = &o.listen,
                   .takes = "HOST:PORT",
                   .text = "Serve Prometheus at this loopback address, such as 127.0.0.1:9464, "
                           "until Ctrl-C or a signal"}},
      .run = [options](const auto& /*rest*/) { return run_top(*options); }};
}

} // namespace farcall::tool
