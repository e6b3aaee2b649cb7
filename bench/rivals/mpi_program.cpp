// SPDX-License-Identifier: Apache-2.0

// The two ranks of an MPI ping-pong, started by `farcall bench rivals` under mpirun: a separate
// program, so that the farcall command does not depend on MPI. Rank 0 prints the library's name and
// then one figure per line: nanoseconds per round trip, one per batch. With "empty" it initialises
// MPI and ends, for `farcall bench scale`. With "collectives" and a number of batches, it measures
// reductions, for `farcall bench collectives`.
#include <bench/collectives/cases.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <mpi.h>

#include <sched.h>

namespace {

constexpr int eight_bytes = 8;

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::fprintf(stderr, "cannot bind to processor %d\n", cpu);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

void echo(long round_trips) {
  std::uint64_t value = 0;
  for (long i = 0; i < round_trips; ++i) {
    MPI_Recv(&value, eight_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, eight_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

std::vector<double> ask(long batches, long warm_up, long calls) {
  using clock = std::chrono::steady_clock;
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(batches));
  std::uint64_t sent = 0;
  for (long batch = -warm_up; batch < batches; ++batch) {
    const auto start = clock::now();
    for (long i = 0; i < calls; ++i) {
      std::uint64_t received = 0;
      ++sent;
      MPI_Send(&sent, eight_bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(&received, eight_bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (received != sent) MPI_Abort(MPI_COMM_WORLD, 3);
    }
    const std::chrono::duration<double, std::nano> took = clock::now() - start;
    if (batch >= 0) samples.push_back(took.count() / static_cast<double>(calls));
  }
  return samples;
}

/// The values of MPI's calls are in place, as farcall's are.
void combine(const farcall::tool::collective_case& c, std::span<double> values, int rank) {
  const int count = static_cast<int>(values.size());
  switch (c.how) {
  case farcall::tool::combines::all_reduce:
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return;
  case farcall::tool::combines::reduce:
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : values.data(), values.data(), count, MPI_DOUBLE, MPI_SUM,
               0, MPI_COMM_WORLD);
    return;
  case farcall::tool::combines::scan:
    MPI_Scan(MPI_IN_PLACE, values.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // The minimum that every MPI program does.
  if (argc == 2 && std::strcmp(argv[1], "empty") == 0) {
    MPI_Finalize();
    return 0;
  }
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc == 3 && std::strcmp(argv[1], "collectives") == 0) {
    farcall::tool::measure_collectives(
        rank == 0, std::atoi(argv[2]),
        [&](const auto& c, std::span<double> values) { combine(c, values, rank); },
        [] { MPI_Barrier(MPI_COMM_WORLD); });
    MPI_Finalize();
    return 0;
  }
  if (argc != 6 || size != 2) {
    std::fprintf(stderr, "usage: mpirun -n 2 %s HOST_CPU TARGET_CPU BATCHES WARM_UP CALLS\n",
                 argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const std::array<int, 2> cpus{std::atoi(argv[1]), std::atoi(argv[2])};
  const long batches = std::atol(argv[3]);
  const long warm_up = std::atol(argv[4]);
  const long calls = std::atol(argv[5]);
  pin(cpus[static_cast<std::size_t>(rank)]);
  if (rank == 1) {
    echo((batches + warm_up) * calls);
  } else {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
    int length = 0;
    MPI_Get_library_version(version.data(), &length);
    const std::vector<double> samples = ask(batches, warm_up, calls);
    std::printf("%.*s\n", length, version.data());
    for (const double sample : samples)
      std::printf("%.3f\n", sample);
  }
  MPI_Finalize();
  return 0;
}
