#pragma once

#include <optional>
#include <string>

namespace ham::offload::detail {

/// What launchers such as mpiexec and srun say in their variables about the processes that they
/// started together.
struct launched_processes {
  std::string said;  ///< by which variable, and its value: "PMI_SIZE=3"
  std::string count; ///< "3"; "N" when it is not known
};

/// Empty when nothing says that there are several.
[[nodiscard]] std::optional<launched_processes> launched_together();

} // namespace ham::offload::detail
