#pragma once

#include <farcall/job/process_manager.hpp>

#include <memory>

namespace farcall {

/// False when farcall was built without the headers of PMIx; then make_pmix_manager() throws.
[[nodiscard]] bool pmix_is_built_in() noexcept;

/// The process manager by PMIx (mpirun of Open MPI, prterun, srun --mpi=pmix), which names the
/// process in its environment. Its library, libpmix, is loaded now, so that programs which nobody
/// starts that way do without. Events come on a thread of that library. An MPI in the same program
/// uses the same library, and PMIx counts its users. Throws error that says what is missing.
[[nodiscard]] std::unique_ptr<process_manager> make_pmix_manager();

} // namespace farcall
