// SPDX-License-Identifier: Apache-2.0
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

/// The group of processes that a launcher such as mpirun, or MPI, has started for one job, from the
/// view of one of them. Process 0 becomes the host. Only one thread at a time may call the
/// functions.
struct process_group {
  std::string name;       ///< name of the launcher or communicator, for error messages
  node_id rank = host_id; ///< this process's number
  std::uint32_t size = 1; ///< number of processes, including this one

  /// The MPI communicator of these processes, as MPI_Comm_c2f() returns it; empty for
  /// MPI_COMM_WORLD, and if MPI has not started the processes. The caller must keep the
  /// communicator until the job is made. The job may use a duplicate, which is freed together with
  /// this communicator.
  std::optional<std::int32_t> communicator{};

  /// Sends bytes, at most some kilobytes, from process 0 to all processes, and returns them on
  /// each. Only the argument of process 0 is used. Like MPI_Bcast(), all processes must call it,
  /// once, and it waits until all have called it. Throws timeout, and error.
  std::function<std::string(const std::string& of_host, time_point deadline)> broadcast;

  /// Registers the function `lost`, which is called on another thread when a process ends without
  /// leaving the job. If this member is null, such an end is noticed only when connections to the
  /// process end.
  std::function<void(std::function<void(node_id rank, const std::string& how)> lost)> on_lost;
};

/// Returns the part of the group's data that transports need.
[[nodiscard]] inline group_place place_in(const process_group& group) noexcept {
  return {group.rank, group.size, group.communicator};
}

/// If a process manager (PMIx, PMI) has started this process and others together, returns the group
/// of these processes, so that they make one job. `which` says how to find the process manager:
/// "auto" detects it, "pmix" and "pmi" require it, and "none" finds none. Returns an empty optional
/// if there is none, and on each call after the first one that has returned the group. The process
/// manager stays in use until exit(), which tells it that this process has ended in order. Throws
/// error if no connection to the process manager can be made.
[[nodiscard]] std::optional<process_group> take_launched_group(std::string_view which);

/// Makes take_launched_group() return an empty optional from now on, both in this process and in
/// programs that it starts. Meant for processes that find each other in another way. Never fails.
void renounce_launched_group();

/// Tells the process manager, if there is one, that this process ends in order. Call it in a
/// process that ends by _exit(), because only exit() tells this by itself.
void leave_launched_group() noexcept;

/// Returns true if a process manager that take_launched_group() would use has started this process,
/// alone or together with others. Only reads the environment.
[[nodiscard]] bool is_launched(std::string_view which) noexcept;

/// Returns true if take_launched_group() would return a group whose host is another process. Only
/// reads the environment.
[[nodiscard]] bool is_launched_target(std::string_view which) noexcept;

/// A launcher, and the number of processes that it has started together.
struct launched_processes {
  /// Name of the launcher, or an environment variable of it with its value ("PMI_SIZE=3"). For
  /// error messages.
  std::string by;
  std::string count; ///< number of processes as text, such as "3"; "N" if it is unknown
};

/// Returns the launcher of this process according to environment variables, as mpiexec and srun set
/// them. Also finds launchers whose protocol farcall does not know. Returns an empty optional if
/// the launcher has started no other process. Throws std::bad_alloc.
[[nodiscard]] std::optional<launched_processes> launched_together();

/// Returns true if a launcher has started this process together with others. For programs that
/// start all other processes themselves, and so must refuse such a start. Before it returns true,
/// calls `tell`, which should report the mistake. If farcall can connect to the launcher's process
/// manager, only one of the processes calls `tell`, otherwise each does. Has the effects of
/// take_launched_group(). Throws error.
[[nodiscard]] bool
refuse_launched_together(std::string_view which,
                         const std::function<void(const launched_processes&)>& tell);

} // namespace farcall
