#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/library.hpp>
#include <farcall/transport/mpi/world.hpp>

#include <cerrno>
#include <mutex>
#include <string>

#include <sched.h>
#include <sys/random.h>

namespace farcall::mpi {
namespace {

void require(int result, const char* what) {
  if (result != MPI_SUCCESS) throw error(std::string(what) + ": " + text_of(result));
}

/// Of something that all processes take part in.
void wait_for(MPI_Request& request, const char* what, time_point deadline) {
  for (;;) {
    int is_done = 0;
    require(::MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), what);
    if (is_done != 0) return;
    if (clock::now() >= deadline) {
      throw error(std::string(what) + ": not all processes have come in time; does each load the "
                                      "module? (FARCALL_TRANSPORT_MODULES)");
    }
    ::sched_yield();
  }
}

void measure(world& w) {
  require(::MPI_Comm_rank(w.communicator, &w.rank), "MPI_Comm_rank");
  require(::MPI_Comm_size(w.communicator, &w.size), "MPI_Comm_size");
}

void require_place(const world& w, const group_place& here) {
  if (static_cast<std::uint32_t>(w.rank) == here.rank &&
      static_cast<std::uint32_t>(w.size) == here.size) {
    return;
  }
  throw error("MPI has other processes (" + std::to_string(w.rank) + " of " +
              std::to_string(w.size) + ") than the job (" + std::to_string(here.rank) + " of " +
              std::to_string(here.size) + ")");
}

/// Memory that a collective which was given up may still use.
void agree_on_number(world& w, time_point deadline) {
  auto number = std::make_unique<std::uint64_t>(0);
  if (w.rank == 0 &&
      ::getrandom(number.get(), sizeof *number, 0) != static_cast<ssize_t>(sizeof *number)) {
    throw_system_error("getting a random number", errno);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  require(::MPI_Ibcast(number.get(), static_cast<int>(sizeof *number), MPI_BYTE, 0, w.communicator,
                       &request),
          "MPI_Ibcast");
  try {
    wait_for(request, "MPI_Ibcast", deadline);
  } catch (...) {
    number.release(); // NOLINT(bugprone-unused-return-value): MPI still writes there
    throw;
  }
  w.number = *number;
}

std::shared_ptr<const world> finish(std::shared_ptr<world> made, time_point deadline) {
  // Otherwise a result that is not good would end the process.
  require(::MPI_Comm_set_errhandler(made->communicator, MPI_ERRORS_RETURN),
          "MPI_Comm_set_errhandler");
  agree_on_number(*made, deadline);
  return made;
}

/// One in a process, for all its jobs.
std::shared_ptr<const world> duplicate_of_all(const group_place& here, time_point deadline) {
  static std::mutex mutex;
  static auto* const last = new std::shared_ptr<const world>;
  const std::lock_guard guard(mutex);
  if (*last) return *last;
  world all;
  all.communicator = MPI_COMM_WORLD;
  measure(all);
  require_place(all, here);
  // Never freed where it is given up: MPI writes the communicator when it has it.
  auto made = std::make_shared<world>(all);
  auto* const kept = new std::shared_ptr<world>(made);
  MPI_Request request = MPI_REQUEST_NULL;
  require(::MPI_Comm_idup(MPI_COMM_WORLD, &made->communicator, &request), "MPI_Comm_idup");
  wait_for(request, "MPI_Comm_idup", deadline);
  delete kept;
  *last = finish(std::move(made), deadline);
  return *last;
}

} // namespace

std::shared_ptr<const world> find_world(const group_place& here, time_point deadline) {
  if (!here.communicator) {
    auto all = duplicate_of_all(here, deadline);
    require_place(*all, here);
    return all;
  }
  auto made = std::make_shared<world>();
  made->communicator = MPI_Comm_f2c(*here.communicator);
  measure(*made);
  require_place(*made, here);
  return finish(std::move(made), deadline);
}

} // namespace farcall::mpi
