// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/job/process_manager.hpp>

#include <memory>

namespace farcall {

/// Returns false if the library was built without PMIx's headers, so that PMIx cannot be used; the
/// function that connects then throws.
[[nodiscard]] bool pmix_is_built_in() noexcept;

/// Connects by PMIx to the process manager that the environment names (mpirun of Open MPI, prterun,
/// srun --mpi=pmix). Loads the PMIx library, libpmix, only at this call, so that programs started
/// otherwise do not need it. A thread of that library reports events. An MPI library in the same
/// program shares the PMIx library, which counts its users. Throws error with a text that says what
/// is missing.
[[nodiscard]] std::unique_ptr<process_manager> make_pmix_manager();

} // namespace farcall
