// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/job/membership_options.hpp>
#include <farcall/offload/job_settings.hpp>
#include <farcall/offload/job_state.hpp>

/// Parts of making a job that hosts, targets and nodes of a job of equals have in common.
namespace farcall::detail {

/// Returns the identity of this process's program.
[[nodiscard]] program_identity identity();

/// Enters a node that this process now knows into its tables, so that calls to the node and from it
/// become possible.
void take_in(job_state& state, const card& c, const route& r);

/// Thread of the first worker.
enum class first_worker : bool {
  library, ///< a thread of the library, or a thread that stays in serve()
  pulled   ///< threads of the program; see am::pulled_worker
};

/// Makes the parts of this process's job for which the members must exist already. If `progresses`
/// is true, the first worker also receives the replies to calls of all threads.
void set_up(job_state& state, const forwarded_settings& forwarded, bool progresses,
            first_worker first = first_worker::library);

} // namespace farcall::detail
