// SPDX-License-Identifier: Apache-2.0
#include "debug_plan.hpp"

#include "run_plan.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/command_words.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

using words_of_command = std::vector<std::string>;

void append(words_of_command& words, const words_of_command& more) {
  words.insert(words.end(), more.begin(), more.end());
}

void require_installed(const std::string& program, const std::string& option,
                       const std::string& path) {
  try {
    (void)find_program(program, path);
  } catch (const usage_problem&) {
    throw usage_problem(fmt::format("{}: {} is not installed, or not on the PATH ({}); install it, "
                                    "for example by: apt install {}",
                                    option, program, path, program));
  }
}

/// True if the host starts the target itself, so that the command of a debugger can be put before
/// the target's command.
bool is_child(const target_url& target) {
  const transport_entry* const row = find_transport(transports(), target.scheme);
  return row != nullptr && !row->host && !row->make_launcher;
}

void require_node(std::size_t node, const std::string& option,
                  const std::vector<target_url>& targets) {
  if (node > targets.size()) {
    throw usage_problem(fmt::format("{}: there is no node {}; take one from 0, the host, to {}",
                                    option, node, targets.size()));
  }
  if (node == 0 || is_child(targets[node - 1])) return;
  throw usage_problem(
      fmt::format("{}: node {} is not started on this machine ({}); use the debugger "
                  "on the machine of its server",
                  option, node, targets[node - 1].scheme));
}

std::size_t node_of(const std::string& text, const std::string& option,
                    const std::vector<target_url>& targets) {
  std::size_t node = 0;
  try {
    node = parse_number(text, "the node", 0, no_node - 1);
  } catch (const setting_error&) {
    throw usage_problem(
        fmt::format("{}={}: give the number of a node, 0 for the host", option, text));
  }
  require_node(node, fmt::format("{}={}", option, text), targets);
  return node;
}

/// Returns the command line of a gdb that the user operates. The debugged node starts when the user
/// types "run".
words_of_command gdb_for_people() {
  return {"gdb", "-q", "-iex", "set startup-with-shell off", "--args"};
}

/// Returns the command line of a gdb that runs without a terminal. If the node faults, gdb prints
/// the stacks of all threads. Then gdb lets the fault end the node, so that the node prints its own
/// crash report. The exit status of gdb is the node's status, or 128 plus the number of the signal
/// that ended the node.
words_of_command gdb_alone() {
  words_of_command words{"gdb", "-q", "-batch", "-return-child-result"};
  for (const char* first : {"set startup-with-shell off", "set debuginfod enabled off"})
    append(words, {"-iex", first});
  // After the end of the node, "thread apply" finds no thread and would fail, and gdb would exit
  // with the status of this error. So the flag -s makes "thread apply" ignore errors.
  for (const char* then : {"handle SIGPIPE nostop noprint pass", "run", "thread apply all -s bt",
                           "handle SIGSEGV SIGBUS SIGFPE SIGILL SIGABRT nostop noprint pass",
                           "thread apply all -s -q continue",
                           "quit $_isvoid($_exitsignal) ? $_exitcode : 128 + $_exitsignal"})
    append(words, {"-ex", then});
  append(words, {"--args"});
  return words;
}

/// Returns the beginning of a command line that starts a program in a process group of its own, by
/// `farcall process-group`. The program's node then gets no signals that the user types for another
/// node.
words_of_command in_own_group(const std::string& command, bool has_terminal) {
  words_of_command words{command, "process-group"};
  if (has_terminal) words.emplace_back("--terminal");
  words.emplace_back("--");
  return words;
}

debug_plan plan_gdb(const std::string& text, const std::vector<target_url>& targets,
                    const debug_place& where) {
  const std::size_t node = node_of(text, "--gdb", targets);
  require_installed("gdb", "--gdb", where.path);
  debug_plan plan;
  plan.has_timeouts = false;
  const words_of_command gdb = where.has_terminal ? gdb_for_people() : gdb_alone();
  if (node == 0) {
    plan.host = gdb;
    if (where.has_terminal) plan.targets = command_line(in_own_group(where.command, false));
    return plan;
  }
  words_of_command words;
  if (where.has_terminal) words = in_own_group(where.command, true);
  append(words, gdb);
  plan.targets = fmt::format("{}:{}", node, command_line(words));
  plan.takes_terminal = where.has_terminal;
  return plan;
}

debug_plan plan_valgrind(const std::string& text, const std::vector<target_url>& targets,
                         const debug_place& where) {
  debug_plan plan;
  plan.has_timeouts = false;
  plan.has_little_memory = true;
  const words_of_command valgrind{"valgrind"};
  require_installed("valgrind", "--valgrind", where.path);
  if (text == "all") {
    plan.host = valgrind;
    plan.targets = command_line(valgrind);
    return plan;
  }
  const std::size_t node = node_of(text, "--valgrind", targets);
  if (node == 0)
    plan.host = valgrind;
  else
    plan.targets = fmt::format("{}:{}", node, command_line(valgrind));
  return plan;
}

debug_plan plan_wrap(const std::string& text, const std::vector<target_url>& targets,
                     const debug_place& where) {
  debug_plan plan;
  // Parse the text of --wrap here. If it is invalid, this throws the same exception as the host
  // would later.
  const wrap_commands wraps = wrap_commands::parse(text);
  for (const auto& [node, words] : wraps.by_node())
    require_node(node, "--wrap " + text, targets);
  for (node_id node = 0; node <= targets.size(); ++node) {
    if (!wraps.of(node).empty()) (void)find_program(wraps.of(node).front(), where.path);
  }
  plan.host = wraps.of(0);
  plan.targets = text;
  return plan;
}

} // namespace

debug_plan plan_debugging(const debug_request& request, const std::vector<target_url>& targets,
                          const debug_place& where) {
  const auto is_given = [](const std::string& text) { return text.empty() ? 0 : 1; };
  if (is_given(request.gdb) + is_given(request.valgrind) + is_given(request.wrap) > 1) {
    throw usage_problem("--gdb, --valgrind and --wrap all say what starts nodes; give one of them "
                        "(--wrap '1:gdb --args;2:valgrind' for several)");
  }
  if (!request.gdb.empty()) return plan_gdb(request.gdb, targets, where);
  if (!request.valgrind.empty()) return plan_valgrind(request.valgrind, targets, where);
  if (!request.wrap.empty()) return plan_wrap(request.wrap, targets, where);
  return {};
}

} // namespace farcall::tool
