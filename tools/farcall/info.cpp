// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "probes.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/gpu_text.hpp>
#include <tools/common/json.hpp>
#include <tools/common/mount_program.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>
#include <tools/common/terminal.hpp>

#include <farcall/farcall.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_choice.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

struct info_options {
  std::string targets = "shm";
  bool no_targets = false;
  bool json = false;
};

struct machine_state {
  std::string host;
  environment env;
  /// Number of cores of the machine, including cores that this process may not use.
  unsigned cores = 0;
  long page_bytes = 0;
  std::vector<probe> huge_pages;
  std::vector<probe> kernel;
  std::vector<probe> other_systems; ///< whether programs of other systems run on targets
  std::vector<limit> limits;
  std::vector<availability> transports;
  std::vector<copy_choice::rate> copies; ///< for large blocks
  /// Fastest function for large copies. It is null if no copies were measured.
  const copy_kernel* fastest_copy = nullptr;
};

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<availability> transports_here() {
  std::vector<availability> all;
  for (const transport_entry& row : farcall::transports()) {
    for (availability& a : row.available())
      all.push_back(std::move(a));
  }
  return all;
}

/// Makes some large copies. copy_large() measures each of its copies, in order to choose the
/// fastest copy function; the rates are read from these measurements. Does nothing if the machine
/// has little free memory.
void measure_copies(machine_state& state) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  if (state.env.memory_available_mib < 256) return;
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  for (int i = 0; i < 3; ++i)
    copy_large(to.data(), from.data(), bytes);
  state.copies = large_copies().rates();
  state.fastest_copy = large_copies().chosen();
}

machine_state look_around() {
  machine_state state;
  state.host = host_name();
  state.env = read_environment();
  state.cores = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN));
  state.page_bytes = sysconf(_SC_PAGESIZE);
  state.huge_pages = {probe_huge_page_pool(), probe_transparent_huge_pages(),
                      probe_shared_transparent_huge_pages()};
  const mount_check mounts = check_mounts();
  state.kernel = {probe_cross_memory_attach(),
                  probe_membarrier(),
                  probe_futex(),
                  probe_pidfd(),
                  probe_memfd(),
                  probe_mounts(mounts),
                  probe_passthrough(mounts),
                  probe_mounts_by_ring(mounts)};
  state.other_systems = {probe_openmp()};
  state.limits = process_limits();
  state.transports = transports_here();
  measure_copies(state);
  return state;
}

/// Route between two targets.
struct pair_route {
  node_id from = 0;
  node_id to = 0;
  std::string transport;
  std::string reason;
};

struct job_routes {
  std::string heading; ///< description of the job
  std::vector<node_description> nodes;
  std::vector<pair_route> pairs;
};

/// Maximum number of nodes of a job whose routes between all pairs of targets are printed. The
/// pairs of more nodes would be too many to read.
constexpr std::size_t max_nodes_with_pairs = 16;

std::vector<std::string> describe_route(node_id to) {
  const node_description d = node_at(to).description();
  return {d.transport, d.route};
}

/// Starts a job and describes its nodes and their routes. If a launcher has started the processes,
/// they may be on any machines. In this case the routes between pairs of targets are described too,
/// unless there are too many nodes.
job_routes describe_job(const std::string& targets) {
  const bool has_launcher = is_launched(detail::process_manager_of({}));
  job_options options;
  if (!has_launcher) options.targets = targets;
  options.program = "/proc/self/exe"; // overrides FARCALL_PROGRAM of the environment
  const job j{options};
  job_routes found;
  found.heading = has_launcher
                      ? "the processes that were launched"
                      : fmt::format("targets \"{}\" (started for this, and ended)", targets);
  found.nodes.push_back(j.host().description());
  for (const node& target : j.targets())
    found.nodes.push_back(target.description());
  if (!has_launcher || j.size() > max_nodes_with_pairs) return found;
  for (const node& from : j.targets()) {
    for (const node& to : j.targets()) {
      if (from.id() == to.id()) continue;
      const auto route = sync(from, fn<&describe_route>, to.id());
      found.pairs.push_back({from.id(), to.id(), route.at(0), route.at(1)});
    }
  }
  return found;
}

json probe_json(const probe& p) {
  json document{{"works", p.works}, {"detail", p.detail}};
  if (!p.advice.empty()) document["advice"] = p.advice;
  return document;
}

/// Converts a name such as "transparent huge pages" to the key "transparent_huge_pages".
std::string as_key(std::string name) {
  for (char& c : name) {
    if (c == ' ' || c == '-') c = '_';
  }
  return name;
}

json probes_json(const std::vector<probe>& probes) {
  json document;
  for (const probe& p : probes)
    document[as_key(p.name)] = probe_json(p);
  return document;
}

json limits_json(const std::vector<limit>& limits) {
  json document;
  const auto value = [](std::uint64_t v) -> json {
    return limit_text(v) == "unlimited" ? json("unlimited") : json(v);
  };
  for (const limit& l : limits)
    document[as_key(l.name)] = {{"soft", value(l.soft)}, {"hard", value(l.hard)}};
  return document;
}

json nodes_json(const std::vector<node_description>& nodes) {
  json document = json::array();
  for (const node_description& n : nodes) {
    document.push_back({{"id", n.id},
                        {"name", n.name},
                        {"host", n.host},
                        {"pid", n.pid},
                        {"architecture", n.architecture},
                        {"cores", n.cores},
                        {"transport", n.transport},
                        {"workers", n.workers},
                        {"route", n.route}});
  }
  return document;
}

json pairs_json(const std::vector<pair_route>& pairs) {
  json document = json::array();
  for (const pair_route& p : pairs) {
    document.push_back(
        {{"from", p.from}, {"to", p.to}, {"transport", p.transport}, {"route", p.reason}});
  }
  return document;
}

json urls_json() {
  json document = json::array();
  for (const transport_entry& row : farcall::transports()) {
    if (row.example.empty()) continue;
    json options;
    for (const url_option& o : row.options) {
      if (o.refusal.empty()) options[o.name] = json(o.help);
    }
    document.push_back({{"scheme", row.scheme}, {"example", row.example}, {"options", options}});
  }
  return document;
}

json to_json(const machine_state& state) {
  json transports = json::array();
  for (const availability& t : state.transports) {
    transports.push_back({{"name", t.name}, {"present", t.present}, {"reason", t.text}});
  }
  json kernel = probes_json(state.kernel);
  json attach = kernel["cross_memory_attach"];
  attach["allowed"] = json(attach.at("works"));
  kernel.erase("cross_memory_attach");
  json copies = json::array();
  for (const copy_choice::rate& r : state.copies) {
    copies.push_back({{"kernel", r.kernel->name},
                      {"mib_s", std::round(r.mib_per_second)},
                      {"chosen", r.kernel == state.fastest_copy}});
  }
  return {{"version", FARCALL_TOOL_VERSION},
          {"machine",
           {{"host", state.host},
            {"architecture", state.env.architecture},
            {"kernel", state.env.kernel},
            {"cpu", state.env.cpu_model},
            {"hypervisor", state.env.hypervisor},
            {"cores", state.cores},
            {"cpus_allowed", cpu_list_text(state.env.cpus)},
            {"memory_mib", state.env.memory_mib},
            {"memory_available_mib", state.env.memory_available_mib},
            {"page_bytes", state.page_bytes}}},
          {"huge_pages", probes_json(state.huge_pages)},
          {"cross_memory_attach", std::move(attach)},
          {"kernel_features", std::move(kernel)},
          {"other_systems", probes_json(state.other_systems)},
          {"limits", limits_json(state.limits)},
          {"large_copies", std::move(copies)},
          {"transports", std::move(transports)},
          {"urls", urls_json()}};
}

/// Returns the text with colours, if standard output is a terminal that has them.
std::string shown(style as, std::string_view text) { return styled_for(STDOUT_FILENO, as, text); }

void append_heading(std::string& text, std::string_view heading) {
  text += '\n' + shown(style::heading, heading) + '\n';
}

void append_copies(std::string& text, const machine_state& state) {
  append_heading(text,
                 fmt::format("Large copies (from {} on the fastest of these, by each process's "
                             "own times; now, in blocks of 32 MiB)",
                             format_bytes(large_copy_from)));
  for (const copy_choice::rate& r : state.copies) {
    text += fmt::format("  {:42} {:.0f} MiB/s{}\n", r.kernel->name, r.mib_per_second,
                        r.kernel == state.fastest_copy ? ", chosen" : "");
  }
  if (state.copies.empty()) text += "  not measured: less than 256 MiB of memory are available\n";
}

void append_urls(std::string& text) {
  append_heading(
      text, fmt::format("URLs of targets (each takes workers=, 1 to {}, and name=)", max_workers));
  for (const transport_entry& row : farcall::transports()) {
    if (row.example.empty()) continue;
    text += fmt::format("  {}\n", row.example);
    for (const url_option& o : row.options) {
      if (o.refusal.empty()) text += fmt::format("    {:12} {}\n", o.name + "=", o.help);
    }
  }
}

void append_probes(std::string& text, const char* heading, const std::vector<probe>& probes) {
  append_heading(text, heading);
  for (const probe& p : probes) {
    text += fmt::format(
        "  {:42} {} {}\n", p.name,
        shown(p.works ? style::good : style::warning, fmt::format("{:4}", p.works ? "yes" : "no")),
        p.detail);
    if (!p.advice.empty()) text += fmt::format("  {:42}      -> {}\n", "", p.advice);
  }
}

std::string to_text(const machine_state& state) {
  std::string text = fmt::format("farcall {}\n", FARCALL_TOOL_VERSION);
  append_heading(text, "Machine");
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:14} {}\n", name, value);
  };
  line("host", state.host);
  line("architecture", state.env.architecture);
  line("kernel", state.env.kernel);
  line("processor",
       state.env.cpu_model + (state.env.hypervisor.empty()
                                  ? ""
                                  : ", virtual machine (" + state.env.hypervisor + ")"));
  line("cores",
       fmt::format("{}, this process may use {}", state.cores, cpu_list_text(state.env.cpus)));
  line("memory", fmt::format("{} MiB, {} MiB available, pages of {}", state.env.memory_mib,
                             state.env.memory_available_mib,
                             format_bytes(static_cast<std::uint64_t>(state.page_bytes))));
  append_probes(text, "Huge pages (used when there are some, never required)", state.huge_pages);
  append_probes(text, "Kernel", state.kernel);
  append_probes(text, "Programs of other systems", state.other_systems);
  append_heading(text, "Limits of this process");
  for (const limit& l : state.limits) {
    text += fmt::format("  {:14} {} {} (at most {})\n", l.name, limit_text(l.soft), l.unit,
                        limit_text(l.hard));
  }
  append_copies(text, state);
  append_heading(text, "Transports");
  for (const availability& t : state.transports) {
    text += fmt::format(
        "  {:14} {}: {}\n", t.name,
        shown(t.present ? style::good : style::warning, t.present ? "present" : "absent"), t.text);
  }
  append_urls(text);
  return text;
}

std::string job_text(const job_routes& found) {
  table out{{{"node"},
             {"name", table::align::left},
             {"host", table::align::left},
             {"pid"},
             {"architecture", table::align::left},
             {"cores"},
             {"workers"},
             {"transport", table::align::left},
             {"route from the host", table::align::left}}};
  for (const node_description& n : found.nodes) {
    out.add_row({fmt::format("{}", n.id), n.name, n.host, fmt::format("{}", n.pid), n.architecture,
                 fmt::format("{}", n.cores), fmt::format("{}", n.workers), n.transport, n.route});
  }
  std::string text = fmt::format("\nRoutes of a job of {}\n", found.heading) + out.text();
  if (found.pairs.empty()) return text;
  table pairs{{{"from"}, {"to"}, {"transport", table::align::left}, {"route", table::align::left}}};
  for (const pair_route& p : found.pairs)
    pairs.add_row({fmt::format("{}", p.from), fmt::format("{}", p.to), p.transport, p.reason});
  return text + "\nRoutes between the others\n" + pairs.text();
}

int run_info(const info_options& options) {
  if (options.targets.empty()) throw usage_problem("--targets is empty; give for example shm:4");
  // look_around() forks, so it must run before the job has threads.
  const machine_state state = look_around();
  job_routes found;
  std::exception_ptr failure;
  if (!options.no_targets) {
    try {
      found = describe_job(options.targets);
    } catch (...) {
      // The error is thrown later, because the printed facts about the machine help to find the
      // cause.
      failure = std::current_exception();
    }
  }
  if (options.json) {
    json document = to_json(state);
    document["targets"] = options.no_targets ? "" : options.targets;
    document["nodes"] = nodes_json(found.nodes);
    if (!found.pairs.empty()) document["routes"] = pairs_json(found.pairs);
    print(document.dump(2) + '\n');
  } else {
    print(to_text(state));
    if (!found.nodes.empty()) print(job_text(found));
  }
  if (failure) std::rethrow_exception(failure);
  return 0;
}

} // namespace

command command_info() {
  auto options = std::make_shared<info_options>();
  info_options& o = *options;
  return {
      .name = "info",
      .text = "Show this machine's capabilities, and the route to each node of a job",
      .examples = {{"farcall info --targets shm:4", "Show the routes of a job of four targets"}},
      .options = {{.name = "--targets",
                   .value = &o.targets,
                   .takes = "URLS",
                   .text =
                       "Targets to start and to describe, e.g. shm:4 or shm?workers=2; not under "
                       "mpirun and similar launchers, whose processes are described",
                   .shows_default = true},
                  {.name = "--no-targets",
                   .value = &o.no_targets,
                   .text = "Start no targets: look at the machine only",
                   .excludes = "--targets"},
                  {.name = "--json", .value = &o.json, .text = "Print one JSON document"}},
      .run = [options](const auto& /*rest*/) { return run_info(*options); }};
}

} // namespace farcall::tool
