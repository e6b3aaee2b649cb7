// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/job/process_manager.hpp>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace farcall {
namespace {

/// Key under which the host publishes its bytes to the other processes.
constexpr const char* key_of_host = "farcall.host";

/// Connection to the process manager that has started this process.
struct launched {
  /// Process id of the process that has made the connection. say_end() does nothing in its forked
  /// children, which have other ids.
  pid_t process = 0;
  std::unique_ptr<process_manager> manager;
};

std::mutex mutex;
bool is_taken = false;
/// The object is never destroyed, because destructors and handlers that run in exit() may use it.
launched* here = nullptr;

std::string broadcast(process_manager& by, const std::string& of_host, time_point deadline) {
  if (by.rank() == host_id) by.put(key_of_host, of_host);
  by.fence(deadline);
  return by.rank() == host_id ? of_host : by.get(host_id, key_of_host, deadline);
}

void say_end() noexcept {
  // Do nothing in a forked child, because the process manager does not know the child.
  if (here->process == ::getpid()) here->manager->finalize();
}

process_manager_kind kind_of(std::string_view which) noexcept {
  if (which == "pmix") return process_manager_kind::pmix;
  if (which == "pmi") return process_manager_kind::pmi;
  return which == "none" ? process_manager_kind::none : launched_by();
}

/// Returns the number that the environment variable contains. Returns an empty optional if the
/// variable is not set, or is no number.
std::optional<std::uint32_t> number_in(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint32_t number = 0;
  const char* const end = text + std::strlen(text);
  const auto [at, problem] = std::from_chars(text, end, number);
  if (problem != std::errc() || at != end) return std::nullopt;
  return number;
}

/// Records that this process has taken its group, and turns the use of process managers off in the
/// environment. Programs that this process starts inherit the variables of its process manager, and
/// must not connect to it. Changing the environment is safe because jobs are made early in main(),
/// before other threads read it.
void take() {
  is_taken = true;
  ::setenv(settings::variable_of(settings::row("process-manager")).c_str(), "none", 1);
}

/// Environment variables in which launchers tell a process how many processes they have started. If
/// several launchers are nested, for instance if srun has started an mpiexec on each machine, the
/// variables of the inner launcher come first. SLURM_NTASKS and SLURM_PROCID are left out, because
/// they are also set in a batch script, which runs only once.
constexpr const char* size_variables[] = {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "SLURM_STEP_NUM_TASKS"};

/// Environment variable in which some launchers tell a process its number, but not how many
/// processes there are.
constexpr const char* rank_variable = "PMIX_RANK";

/// Returns what the environment says about the launcher of this process, even if the launcher has
/// started only this one. Returns an empty optional if there is no launcher, or if this process is
/// the first one of an unknown number.
std::optional<launched_processes> launched_by_variables() {
  for (const char* name : size_variables) {
    if (const auto value = environment(name))
      return launched_processes{std::string(name) + '=' + *value, *value};
  }
  const auto number = environment(rank_variable);
  if (!number || *number == "0") return std::nullopt;
  return launched_processes{std::string(rank_variable) + '=' + *number, "N"};
}

} // namespace

std::optional<process_group> take_launched_group(std::string_view which) {
  const std::lock_guard guard(mutex);
  if (is_taken) return std::nullopt;
  std::unique_ptr<process_manager> manager = find_process_manager(kind_of(which));
  if (manager == nullptr) {
    if (which == "pmix" || which == "pmi") {
      throw error("FARCALL_PROCESS_MANAGER, or job_options::process_manager, is \"" +
                  std::string(which) +
                  "\", but no such launcher has started this process; \"auto\" finds out");
    }
    return std::nullopt;
  }
  process_manager* const by = manager.get();
  here = new launched{::getpid(), std::move(manager)};
  std::atexit(&say_end);
  take();
  process_group group;
  group.name = by->name();
  group.rank = by->rank();
  group.size = by->size();
  group.broadcast = [by](const std::string& of_host, time_point deadline) {
    return broadcast(*by, of_host, deadline);
  };
  group.on_lost = [by](auto lost) { by->on_lost(std::move(lost)); };
  return group;
}

void renounce_launched_group() {
  const std::lock_guard guard(mutex);
  if (!is_taken) take();
}

void leave_launched_group() noexcept {
  const std::lock_guard guard(mutex);
  if (here != nullptr) say_end();
}

bool is_launched(std::string_view which) noexcept {
  const std::lock_guard guard(mutex);
  return !is_taken && kind_of(which) != process_manager_kind::none;
}

bool is_launched_target(std::string_view which) noexcept {
  {
    const std::lock_guard guard(mutex);
    if (is_taken) return false;
  }
  switch (kind_of(which)) {
  case process_manager_kind::pmix:
    return number_in("PMIX_RANK").value_or(0) != 0;
  case process_manager_kind::pmi:
    return number_in("PMI_RANK").value_or(number_in("PMI_ID").value_or(0)) != 0;
  case process_manager_kind::none:
    break;
  }
  return false;
}

std::optional<launched_processes> launched_together() {
  auto found = launched_by_variables();
  return found && found->count != "1" ? std::move(found) : std::nullopt;
}

bool refuse_launched_together(std::string_view which,
                              const std::function<void(const launched_processes&)>& tell) {
  const auto others = launched_by_variables();
  if (others && others->count == "1") return false;
  if (const auto group = take_launched_group(which); group && group->size > 1) {
    if (group->rank == host_id) tell({group->name, std::to_string(group->size)});
    // Wait until process 0 has written its line to the log. If this process failed before that, the
    // launcher would end all processes, including process 0.
    constexpr std::chrono::seconds enough{10};
    (void)group->broadcast("", deadline_after(enough));
    return true;
  }
  if (others) tell(*others);
  return others.has_value();
}

} // namespace farcall
