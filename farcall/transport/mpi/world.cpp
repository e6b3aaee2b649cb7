// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/library.hpp>
#include <farcall/transport/mpi/world.hpp>

#include <cerrno>
#include <mutex>
#include <string>

#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

namespace farcall::mpi {
namespace {

void require(int result, const char* what) {
  if (result != MPI_SUCCESS) throw error(std::string(what) + ": " + text_of(result));
}

/// Waits until a collective operation has completed, in which all processes have to take part.
/// Throws error at the deadline.
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

/// Agrees with the other processes on the communicator's number. Process 0 chooses the number, and
/// MPI sends it to the others. If the operation is given up, the memory of the number is leaked,
/// because MPI may still write to it.
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

void finish(world& made, time_point deadline) {
  // Make MPI return its errors as results. By default, MPI ends the process at an error.
  require(::MPI_Comm_set_errhandler(made.communicator, MPI_ERRORS_RETURN),
          "MPI_Comm_set_errhandler");
  agree_on_number(made, deadline);
}

/// Duplicates the communicator `of`. This call is collective, so that all processes of `of` must
/// make it.
std::shared_ptr<world> duplicate_of(MPI_Comm of, const group_place& here, time_point deadline) {
  // Keep a second reference to the object until the duplicate is made, because MPI writes the
  // communicator into the object at that time. If the operation is given up, this reference, and so
  // the object, is leaked.
  auto made = std::make_shared<world>();
  made->communicator = of;
  measure(*made);
  require_place(*made, here);
  auto* const kept = new std::shared_ptr<world>(made);
  MPI_Request request = MPI_REQUEST_NULL;
  require(::MPI_Comm_idup(of, &made->communicator, &request), "MPI_Comm_idup");
  wait_for(request, "MPI_Comm_idup", deadline);
  delete kept;
  finish(*made, deadline);
  return made;
}

/// Returns the duplicate of MPI_COMM_WORLD, which a process makes once for all its jobs.
std::shared_ptr<const world> duplicate_of_all(const group_place& here, time_point deadline) {
  static std::mutex mutex;
  static auto* const last = new std::shared_ptr<const world>;
  const std::lock_guard guard(mutex);
  if (*last) return *last;
  *last = duplicate_of(MPI_COMM_WORLD, here, deadline);
  return *last;
}

/// Value of the attribute by which a communicator keeps its duplicate.
struct kept_world {
  std::shared_ptr<const world> made;
  std::shared_ptr<const owned_communicator> owner;
};

/// Callback that MPI calls when the program frees a communicator that keeps a duplicate.
int drop_world(MPI_Comm, int, void* kept, void*) {
  delete static_cast<kept_world*>(kept);
  return MPI_SUCCESS;
}

/// Returns the key of the attribute in which a communicator keeps its duplicate.
int world_attribute() {
  static const int number = [] {
    int made = MPI_KEYVAL_INVALID;
    require(::MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &drop_world, &made, nullptr),
            "MPI_Comm_create_keyval");
    return made;
  }();
  return number;
}

/// Returns the duplicate of the communicator `of`. The first job that asks for the duplicate makes
/// it, and later jobs get the same one.
std::shared_ptr<const world> duplicate_of_part(MPI_Comm of, const group_place& here,
                                               time_point deadline) {
  void* kept = nullptr;
  int is_there = 0;
  require(::MPI_Comm_get_attr(of, world_attribute(), &kept, &is_there), "MPI_Comm_get_attr");
  if (is_there != 0) return static_cast<kept_world*>(kept)->made;
  const std::shared_ptr<world> made = duplicate_of(of, here, deadline);
  auto owner = std::make_shared<const owned_communicator>(made->communicator);
  made->owner = owner;
  auto to_keep = std::make_unique<kept_world>(kept_world{made, std::move(owner)});
  require(::MPI_Comm_set_attr(of, world_attribute(), to_keep.get()), "MPI_Comm_set_attr");
  to_keep.release(); // NOLINT(bugprone-unused-return-value): the communicator's now
  return made;
}

/// True if MPI is running and this thread may call it.
bool may_call_mpi() noexcept {
  if (phase_now() != phase::running) return false;
  int level = MPI_THREAD_SINGLE;
  int is_main = 0;
  (void)::MPI_Query_thread(&level);
  (void)::MPI_Is_thread_main(&is_main);
  return level == MPI_THREAD_MULTIPLE || is_main != 0;
}

} // namespace

std::shared_ptr<const world> find_world(const group_place& here, time_point deadline) {
  if (!here.communicator) {
    auto all = duplicate_of_all(here, deadline);
    require_place(*all, here);
    return all;
  }
  return duplicate_of_part(MPI_Comm_f2c(*here.communicator), here, deadline);
}

owned_communicator::owned_communicator(MPI_Comm communicator) noexcept
    : communicator_(communicator), process_(::getpid()) {}

owned_communicator::~owned_communicator() {
  if (process_ == ::getpid() && may_call_mpi()) (void)::MPI_Comm_free(&communicator_);
}

} // namespace farcall::mpi
