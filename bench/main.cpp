// SPDX-License-Identifier: Apache-2.0

// farcall-bench, started by `farcall bench`.

#include "commands.hpp"

#include <bench/scale/nodes.hpp>

#include <farcall/offload/job.hpp>

#include <string_view>

namespace {

/// Named `farcall bench`, as users start it, for messages and help.
farcall::tool::command program() {
  using namespace farcall::tool;
  command all{.name = "farcall bench",
              .text = "Measure what an offload costs here, beside the floor of the same run",
              .footer = "docs/benchmarks.md says how each figure is measured."};
  all.commands = {command_floor(),  command_offload(), command_patterns(), command_bandwidth(),
                  command_files(),  command_scale(),   command_start(),    command_load(),
                  command_waking(), command_attacks(), command_faults(),   command_trace()};
#ifdef FARCALL_TOOL_HAS_VEO
  all.commands.push_back(command_veo_memory());
#endif
#ifdef FARCALL_TOOL_HAS_AM2
  all.commands.push_back(command_am2());
#endif
  all.commands.push_back(command_collectives());
  all.commands.push_back(command_ucx());
  all.commands.push_back(command_mpi());
  all.commands.push_back(command_rivals());
  return all;
}

} // namespace

int main(int argc, char** argv) {
  farcall::serve_if_target(); // the benchmarks start this program as their targets
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == farcall::tool::job_argument) return farcall::tool::measure_scale_job(argc, argv);
  if (first.starts_with("--farcall-serve=")) {
    const farcall::job server{argc, argv}; // serves until a signal ends the process
    return 0;
  }
  return farcall::tool::run_command_line(program(), "", argc, argv);
}
