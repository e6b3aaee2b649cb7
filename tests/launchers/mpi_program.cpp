// SPDX-License-Identifier: Apache-2.0

// An MPI program that also makes a farcall job: argument 1 selects the order.

#include <farcall/farcall.hpp>
#include <farcall/mpi.hpp>

#include <cstdio>
#include <optional>
#include <string>

namespace {

namespace fc = farcall;

bool works(fc::job& job) {
  int rank = 0;
  int sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const auto next = static_cast<fc::node_id>((job.rank() + 1) % job.size());
  const auto size = static_cast<int>(job.size());
  return static_cast<int>(job.rank()) == rank && sum == size * (size - 1) / 2 &&
         fc::sync(job.node_at(next), [] { return fc::this_node().id(); }) == next;
}

} // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): LeakSanitizer's name
extern "C" int __lsan_is_turned_off();
// Open MPI leaks memory in modules that are unloaded before the check.
extern "C" int __lsan_is_turned_off() { return 1; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

int main(int argc, char** argv) {
  const std::string order = argc > 1 ? argv[1] : "";
  std::optional<fc::job> job;
  if (order == "after") job.emplace(fc::spmd, argc, argv);
  MPI_Init(&argc, &argv);
  if (order == "before") job.emplace(fc::spmd, argc, argv);
  if (order == "communicator") job.emplace(MPI_COMM_WORLD);
  if (!job) return 99;
  const bool right = works(*job);
  job->barrier();
  job->close();
  MPI_Finalize();
  std::printf(right ? "right\n" : "wrong\n");
  return right ? 0 : 1;
}
