#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/group_place.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace farcall {

/// The processes of a job that something else than its host has started, as one of them sees them:
/// those of mpirun, or of an MPI communicator. Process 0 becomes the host. The functions are called
/// by one thread at a time.
struct process_group {
  std::string name;       ///< of what has started them, for people
  node_id rank = host_id; ///< of this process
  std::uint32_t size = 1; ///< processes, this one included

  /// MPI's communicator of the same processes, as MPI_Comm_c2f gives it, until the job is made:
  /// messages may go over a duplicate of it, which is freed with it. Empty for MPI_COMM_WORLD, and
  /// if MPI has not started the processes.
  std::optional<std::int32_t> communicator{};

  /// Gives each the bytes that process 0 calls it with, some kilobytes; the others' are ignored.
  /// All call it, once. Waits until all have. Throws timeout, and error. As MPI_Bcast.
  std::function<std::string(const std::string& of_host, time_point deadline)> broadcast;

  /// Has `lost` called, from another thread, when one of them has ended without leaving the job.
  /// Null: connections alone tell.
  std::function<void(std::function<void(node_id rank, const std::string& how)> lost)> on_lost;
};

/// What its transports learn of it.
[[nodiscard]] inline group_place place_in(const process_group& group) noexcept {
  return {group.rank, group.size, group.communicator};
}

/// Takes the processes that a process manager (PMIx, PMI) has started together, this one included,
/// at the first call: they make one job. Empty if no process manager has started this process, or
/// `which` is "none"; "auto" finds out, "pmix" and "pmi" insist. The process manager stays in use
/// until exit(), and is told there that the process ends in order. Throws error if no connection to
/// the process manager can be made.
[[nodiscard]] std::optional<process_group> take_launched_group(std::string_view which);

/// The processes find each other in another way: there is no launched group any more, here and in
/// programs that this one starts. Never fails.
void renounce_launched_group();

/// Tells the process manager, if one was asked, that this process ends in order: for a process that
/// ends by _exit().
void leave_launched_group() noexcept;

/// Whether a process manager has started this process that take_launched_group() would ask, alone
/// or with others. Asks nobody.
[[nodiscard]] bool is_launched(std::string_view which) noexcept;

/// Whether take_launched_group() would give one in which this process is not the host. Asks nobody.
[[nodiscard]] bool is_launched_target(std::string_view which) noexcept;

/// Processes that a launcher has started together.
struct launched_processes {
  std::string by;    ///< for people: the launcher, or its variable and the value: "PMI_SIZE=3"
  std::string count; ///< "3"; "N" if it is not known
};

/// Reads the variables of launchers such as mpiexec and srun, also of launchers that farcall cannot
/// ask. Empty if the variables name no further process. Throws std::bad_alloc.
[[nodiscard]] std::optional<launched_processes> launched_together();

/// True if a launcher has started this process with others: for a program that starts all others
/// by itself, and so refuses this. Calls `tell` before, once for all if the launcher can be asked,
/// else in each process. Does what take_launched_group() does, and throws the same.
[[nodiscard]] bool
refuse_launched_together(std::string_view which,
                         const std::function<void(const launched_processes&)>& tell);

} // namespace farcall
