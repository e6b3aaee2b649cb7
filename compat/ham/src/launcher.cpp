#include "launcher.hpp"

#include <farcall/base/settings.hpp>

namespace ham::offload::detail {
namespace {

/// The launcher's number of processes, the nearest launcher first: mpiexec may itself have been
/// started by srun, for each machine. SLURM_NTASKS and SLURM_PROCID are no sign: a batch script,
/// which runs once, has them, too.
constexpr const char* sizes[] = {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                 "SLURM_STEP_NUM_TASKS"};

/// Of launchers that tell each process its number and no more.
constexpr const char* rank = "PMIX_RANK";

} // namespace

std::optional<launched_processes> launched_together() {
  for (const char* name : sizes) {
    if (const auto value = farcall::environment(name)) {
      if (*value == "1") return std::nullopt;
      return launched_processes{std::string(name) + '=' + *value, *value};
    }
  }
  const auto number = farcall::environment(rank);
  if (!number || *number == "0") return std::nullopt;
  return launched_processes{std::string(rank) + '=' + *number, "N"};
}

} // namespace ham::offload::detail
