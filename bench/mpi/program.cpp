// SPDX-License-Identifier: Apache-2.0

// Cost of jobs over MPI, beside MPI's own ping-pong in the same run and between the same processes:
// mpirun -n 2 --bind-to core farcall-bench-mpi [calls of a batch]. Name the module in
// FARCALL_TRANSPORT_MODULES. Prints nanoseconds: median, 1st and 99th percentile of batches. With
// the further arguments of `farcall bench mpi` (batches, and the processors of the two processes),
// prints a line with the times of a call and of a ping-pong for each batch.

#include <bench/report/statistics.hpp>

#include <farcall/farcall.hpp>
#include <farcall/mpi.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <sched.h>

/// Gives each process its own machine identity, so that nodes of one machine use MPI: the linker
/// makes the library call this function in place of farcall::machine_identity().
std::string own_machine() asm("__wrap__ZN7farcall16machine_identityB5cxx11Ev");
std::string own_machine() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return "machine " + std::to_string(rank);
}

namespace {

namespace fc = farcall;
using farcall::tool::summary;

constexpr int batches = 60;
constexpr int pong_bytes = 8;
constexpr std::size_t window = 256;
constexpr std::size_t copied_bytes = std::size_t{16} << 20;

MPI_Comm communicator = MPI_COMM_NULL;

void nothing() {}

/// Replies in the ping-pong.
void pong(int calls, int bytes) {
  std::vector<std::byte> b(static_cast<std::size_t>(bytes));
  for (int i = 0; i < calls; ++i) {
    MPI_Recv(b.data(), bytes, MPI_BYTE, 0, 1, communicator, MPI_STATUS_IGNORE);
    MPI_Send(b.data(), bytes, MPI_BYTE, 0, 1, communicator);
  }
}

double nanoseconds_since(fc::time_point begin) {
  return std::chrono::duration<double, std::nano>(fc::clock::now() - begin).count();
}

double ping(const fc::node& target, int calls, int bytes) {
  std::vector<std::byte> b(static_cast<std::size_t>(bytes));
  auto other = fc::async(target, fc::fn<&pong>, calls + 1, bytes);
  fc::time_point begin{};
  for (int i = 0; i <= calls; ++i) {
    // The first round trip waits for the other side.
    if (i == 1) begin = fc::clock::now();
    MPI_Send(b.data(), bytes, MPI_BYTE, 1, 1, communicator);
    MPI_Recv(b.data(), bytes, MPI_BYTE, 1, 1, communicator, MPI_STATUS_IGNORE);
  }
  const double took = nanoseconds_since(begin);
  other.get();
  return took / calls;
}

double call(const fc::node& target, int calls) {
  fc::sync(target, fc::fn<&nothing>);
  const fc::time_point begin = fc::clock::now();
  for (int i = 0; i < calls; ++i)
    fc::sync(target, fc::fn<&nothing>);
  return nanoseconds_since(begin) / calls;
}

double pipeline(const fc::node& target, int calls) {
  std::deque<fc::future<void>> open;
  const fc::time_point begin = fc::clock::now();
  for (int i = 0; i < calls; ++i) {
    if (open.size() == window) {
      open.front().get();
      open.pop_front();
    }
    open.push_back(fc::async(target, fc::fn<&nothing>));
  }
  for (auto& f : open)
    f.get();
  return nanoseconds_since(begin) / calls;
}

void print(const char* what, std::vector<double> samples) {
  const summary s = fc::tool::summarize(std::move(samples));
  std::printf("%-36s %10.1f %10.1f %10.1f\n", what, s.p50, s.p1, s.p99);
}

void measure(const fc::node& target, int calls) {
  std::vector<double> pings;
  std::vector<double> empty;
  std::vector<double> pipelined;
  std::vector<double> sent;
  std::vector<double> put;
  std::vector<double> got;
  std::vector<double> ratios;
  std::vector<std::byte> here(copied_bytes);
  const auto there = target.allocate<std::byte>(copied_bytes);
  for (int i = 0; i < batches; ++i) {
    pings.push_back(ping(target, calls, pong_bytes));
    empty.push_back(call(target, calls));
    ratios.push_back(empty.back() / pings.back());
    pipelined.push_back(pipeline(target, calls * 4));
    if (i % 4 != 0) continue;
    fc::time_point begin = fc::clock::now();
    fc::put(std::span(here), there).get();
    put.push_back(nanoseconds_since(begin));
    begin = fc::clock::now();
    fc::get(there, std::span(here)).get();
    got.push_back(nanoseconds_since(begin));
    // Half of a round trip is one way.
    sent.push_back(ping(target, 1, static_cast<int>(copied_bytes)) / 2);
  }
  std::printf("transport %s\n%-36s %10s %10s %10s\n", target.description().transport.c_str(),
              "nanoseconds", "median", "1 %", "99 %");
  print("MPI ping-pong, 8 bytes", std::move(pings));
  print("empty call", std::move(empty));
  print("empty call, of a window of 256", std::move(pipelined));
  print("MPI message of 16 MiB, one way", std::move(sent));
  print("put of 16 MiB", std::move(put));
  print("get of 16 MiB", std::move(got));
  const summary r = fc::tool::summarize(std::move(ratios));
  std::printf("empty call / MPI ping-pong: %.2f (%.2f to %.2f)\n", r.p50, r.p1, r.p99);
}

void print_turns(const fc::node& target, int calls, int turns) {
  (void)ping(target, calls, pong_bytes);
  (void)call(target, calls);
  for (int i = 0; i < turns; ++i) {
    const double ours = call(target, calls);
    const double bare = ping(target, calls, pong_bytes);
    std::printf("farcall-bench-mpi: call %.3f %.3f\n", ours, bare);
  }
}

/// Binds this process to a processor; its later threads inherit the binding.
bool pin(const char* cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(std::atoi(cpu)), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

} // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  const bool in_turns = argc == 5;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (in_turns && !pin(argv[rank == 0 ? 3 : 4])) {
    std::fprintf(stderr, "cannot bind to processor %s\n", argv[rank == 0 ? 3 : 4]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  {
    fc::job job{MPI_COMM_WORLD};
    if (job.size() != 2) {
      std::fprintf(stderr, "start two processes\n");
      return 2;
    }
    const int calls = argc > 1 ? std::atoi(argv[1]) : 2000;
    if (job.rank() == 0 && in_turns) print_turns(job.node_at(1), calls, std::atoi(argv[2]));
    if (job.rank() == 0 && !in_turns) measure(job.node_at(1), calls);
    job.barrier();
    job.close();
  }
  MPI_Finalize();
  return 0;
}
