// SPDX-License-Identifier: Apache-2.0

// A program that mpirun starts, whose nodes use the mpi transport. The first argument selects the
// test.

#include <farcall/farcall.hpp>
#include <farcall/mpi.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

/// Replaces farcall::machine_identity(), by the linker, so that transports take each process for
/// another machine.
std::string own_machine() asm("__wrap__ZN7farcall16machine_identityB5cxx11Ev");
std::string own_machine() {
  if (std::getenv("TEST_ONE_MACHINE") != nullptr) return "machine";
  if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK")) {
    const int of_each = std::getenv("TEST_TWO_OF_EACH_MACHINE") != nullptr ? 2 : 1;
    return "machine " + std::to_string(std::atoi(rank) / of_each);
  }
  if (const char* rank = std::getenv("PMI_RANK")) return std::string("machine ") + rank;
  return "machine";
}

namespace farcall::test {
namespace {
/// Duplicates of communicators that this process has made and not freed.
std::atomic<int> duplicates{0};
std::atomic<int> duplications{0};
} // namespace
} // namespace farcall::test

// Wrappers of MPI's functions, by its profiling interface.
extern "C" int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
  ++farcall::test::duplicates;
  ++farcall::test::duplications;
  return PMPI_Comm_dup(of, made);
}
extern "C" int MPI_Comm_idup(MPI_Comm of, MPI_Comm* made, MPI_Request* request) {
  ++farcall::test::duplicates;
  ++farcall::test::duplications;
  return PMPI_Comm_idup(of, made, request);
}
extern "C" int MPI_Comm_free(MPI_Comm* communicator) {
  --farcall::test::duplicates;
  return PMPI_Comm_free(communicator);
}

namespace farcall::test {
namespace {

#define CHECK(condition)                                                                           \
  ((condition) ? void() : (std::printf("line %d: %s\n", __LINE__, #condition), std::_Exit(98)))

unsigned id() { return this_node().id(); }
int twice(int v) { return 2 * v; }
int ask_host(int v) { return sync(node_at(host_id), fn<&twice>, v) + 1; }
unsigned ask(unsigned other) { return sync(node_at(other), fn<&id>); }
long long sum(remote_span<int> v) {
  const std::span<int> here = v.local();
  return std::accumulate(here.begin(), here.end(), 0LL);
}
long long sum_of(const std::vector<int>& v) { return std::accumulate(v.begin(), v.end(), 0LL); }
std::vector<int> count_to(int n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 1);
  return v;
}

void init(int level) {
  int given = 0;
  MPI_Init_thread(nullptr, nullptr, level, &given);
  CHECK(given == level);
}

/// Makes calls and copies of all kinds and sizes to one other node.
void use(const node& n) {
  for (int i = 0; i < 200; ++i)
    CHECK(sync(n, fn<&twice>, i) == 2 * i);
  std::vector<future<int>> calls;
  for (int i = 0; i < 5'000; ++i)
    calls.push_back(async(n, fn<&twice>, i));
  const std::vector<int> many = count_to(400'000);
  CHECK(sync(n, fn<&sum_of>, many) == 80'000'200'000LL);
  CHECK(sync(n, fn<&count_to>, 100'000) == count_to(100'000));
  const auto there = n.allocate<int>(many.size());
  put(std::span(many), there).get();
  CHECK(sync(n, fn<&sum>, there.span()) == 80'000'200'000LL);
  std::vector<int> back(many.size());
  get(there, std::span(back)).get();
  CHECK(back == many);
  const std::vector<int> twos(many.size(), 2);
  put(std::span(twos), there.within(std::chrono::seconds(10))).get();
  get(there.within(std::chrono::seconds(10)), std::span(back)).get();
  CHECK(back == twos);
  for (int i = 0; i < 5'000; ++i)
    CHECK(calls[static_cast<std::size_t>(i)].get() == 2 * i);
}

/// A plain job, in a program that does not call MPI.
int works(int argc, char** argv) {
  job j{argc, argv};
  std::printf("%zu nodes\n", j.size());
  for (const node& n : j.targets()) {
    std::printf("0-%u %s\n", n.id(), n.description().transport.c_str());
    use(n);
    CHECK(sync(n, fn<&ask_host>, 4) == 9);
    for (unsigned other = 1; other < j.size(); ++other)
      CHECK(sync(n, fn<&ask>, other) == other);
  }
  return 0;
}

/// Threads sleep at once instead of spinning, so that the progress thread has to wake them.
int sleeps(int argc, char** argv) {
  job_options o;
  o.waiting = {.spin = {}, .yield_after = {}};
  job j{argc, argv, o};
  for (const node& n : j.targets())
    use(n);
  std::printf("woken\n");
  return 0;
}

/// Two jobs, one after the other: the second starts its own targets, without MPI.
int two_jobs(int argc, char** argv) {
  {
    job first{argc, argv};
    std::printf("first of %zu by %s\n", first.size(),
                first.targets().at(0).description().transport.c_str());
    use(first.targets().at(0));
  }
  job second{argc, argv};
  std::printf("second of %zu by %s\n", second.size(),
              second.targets().at(0).description().transport.c_str());
  use(second.targets().at(0));
  return 0;
}

/// Each node uses the next one, from several threads, while the program's own MPI messages,
/// received from any source with any tag, go in the other direction.
void use_beside_mpi(job& j, MPI_Comm communicator) {
  const auto size = static_cast<int>(j.size());
  const auto rank = static_cast<int>(j.rank());
  const node next = j.node_at(static_cast<node_id>((rank + 1) % size));
  std::printf("%d-%u %s\n", rank, next.id(), next.description().transport.c_str());
  int token = -1;
  MPI_Request receive = MPI_REQUEST_NULL;
  MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &receive);
  use(next);
  MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 1, communicator);
  for (int has_come = 0; has_come == 0; j.progress())
    MPI_Test(&receive, &has_come, MPI_STATUS_IGNORE);
  CHECK(token == (rank + 1) % size);
  std::vector<std::thread> all;
  std::atomic<int> done = 0;
  for (int t = 0; t < 3; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i)
        CHECK(sync(next, fn<&twice>, t * 1000 + i) == 2 * (t * 1000 + i));
      const std::vector<int> many = count_to(50'000);
      const auto there = next.allocate<int>(many.size());
      put(std::span(many), there).get();
      CHECK(sync(next, fn<&sum>, there.span()) == 1'250'025'000LL);
      ++done;
    });
  }
  while (done != 3)
    j.progress();
  for (std::thread& t : all)
    t.join();
  j.barrier();
}

int equals(int level) {
  init(level);
  {
    job j{MPI_COMM_WORLD};
    use_beside_mpi(j, MPI_COMM_WORLD);
    j.close();
  }
  MPI_Finalize();
  std::printf("right\n");
  return 0;
}

int multiple(int /*argc*/, char** /*argv*/) { return equals(MPI_THREAD_MULTIPLE); }
/// Messages of other threads are sent when the main thread polls.
int funneled(int /*argc*/, char** /*argv*/) { return equals(MPI_THREAD_FUNNELED); }

int serialized(int /*argc*/, char** /*argv*/) { return equals(MPI_THREAD_SERIALIZED); }

/// Two nodes share each machine, so half of them have only lanes over shared memory until other
/// nodes open lanes to them.
int barriers(int /*argc*/, char** /*argv*/) {
  ::setenv("TEST_TWO_OF_EACH_MACHINE", "1", 1);
  init(MPI_THREAD_FUNNELED);
  {
    job j{MPI_COMM_WORLD};
    for (int i = 0; i < 100; ++i)
      j.barrier();
    j.close();
  }
  MPI_Finalize();
  std::printf("right\n");
  return 0;
}

std::atomic<int> calls_here = 0;
void count_call() { ++calls_here; }

/// Calls a node that has made no call itself. Posts must be sent although the sender waits in MPI
/// and does not poll.
int called(int /*argc*/, char** /*argv*/) {
  init(MPI_THREAD_FUNNELED);
  {
    job j{MPI_COMM_WORLD};
    int token = 7;
    if (j.rank() == 0) {
      const node other = j.node_at(1);
      sync(other, fn<&count_call>);
      for (int i = 0; i < 3; ++i)
        post(other, fn<&count_call>);
      MPI_Recv(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      while (calls_here != 4)
        j.progress();
      MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    j.barrier();
    j.close();
  }
  MPI_Finalize();
  std::printf("right\n");
  return 0;
}

/// Finalises MPI while the job still uses it: calls must fail rather than wait.
int too_early(int /*argc*/, char** /*argv*/) {
  init(MPI_THREAD_MULTIPLE);
  auto* const j = new job{MPI_COMM_WORLD};
  const node other = j->node_at(1 - j->rank());
  use(other);
  j->barrier();
  MPI_Finalize();
  try {
    for (;;)
      (void)sync(other, fn<&twice>, 1);
  } catch (const error& e) {
    std::printf("caught: %s\n", e.what());
  }
  std::fflush(stdout);
  std::_Exit(0);
}

/// Makes a job of some of the processes; process 0 takes no part.
int part(int /*argc*/, char** /*argv*/) {
  init(MPI_THREAD_MULTIPLE);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, -rank, &some);
  if (some != MPI_COMM_NULL) {
    job j{some};
    use_beside_mpi(j, some);
    j.close();
    std::printf("right\n");
  }
  MPI_Finalize();
  return 0;
}

/// Makes a job over a communicator, which the program frees after the job.
int frees(int /*argc*/, char** /*argv*/) {
  if (std::getenv("TEST_NO_MODULES") != nullptr) ::setenv("FARCALL_TRANSPORT_MODULES", "none", 1);
  init(MPI_THREAD_MULTIPLE);
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  std::string transport;
  {
    job j{own};
    const node next = j.node_at(static_cast<node_id>((j.rank() + 1) % j.size()));
    transport = next.description().transport;
    use(next);
    j.barrier();
    j.close();
  }
  const int made = duplications - 1;
  MPI_Comm_free(&own);
  // The host's transports use their communicator until here.
  MPI_Finalize();
  std::printf("by %s: made %d, left %d\n", transport.c_str(), made, duplicates.load());
  return 0;
}

/// Makes a job of equals without MPI calls: it gets its processes from the launcher, and farcall
/// initialises MPI.
int launched(int argc, char** argv) {
  job j{spmd, argc, argv};
  const node next = j.node_at(static_cast<node_id>((j.rank() + 1) % j.size()));
  std::printf("%u-%u %s\n", j.rank(), next.id(), next.description().transport.c_str());
  use(next);
  j.barrier();
  j.close();
  std::printf("right\n");
  return 0;
}

/// Finalises MPI before the job object is destroyed.
int finalized(int /*argc*/, char** /*argv*/) {
  init(MPI_THREAD_MULTIPLE);
  auto* const j = new job{MPI_COMM_WORLD};
  use(j->node_at(static_cast<node_id>((j->rank() + 1) % j->size())));
  j->barrier();
  // The host's transports are destroyed at exit().
  j->close();
  MPI_Finalize();
  std::printf("right\n");
  return 0;
}

int single(int /*argc*/, char** /*argv*/) {
  ::setenv("TEST_ONE_MACHINE", "1", 1);
  MPI_Init(nullptr, nullptr);
  int given = 0;
  MPI_Query_thread(&given);
  job j{MPI_COMM_WORLD};
  const node next = j.node_at(static_cast<node_id>((j.rank() + 1) % j.size()));
  std::printf("level %d by %s\n", given, next.description().transport.c_str());
  CHECK(sync(next, fn<&twice>, 2) == 4);
  j.barrier();
  j.close();
  MPI_Finalize();
  return 0;
}

/// Exits in one process, which has not closed the job.
int leaves(int argc, char** argv) {
  job j{spmd, argc, argv};
  use(j.node_at(1 - j.rank()));
  if (j.rank() == 1) std::exit(3);
  for (;;)
    j.progress();
}

/// Kills the first target; the other nodes go on.
int dies(int argc, char** argv) {
  job j{argc, argv};
  use(j.targets().at(0));
  try {
    async(j.targets().at(0), [] { std::raise(SIGKILL); }).get();
  } catch (const node_failed& e) {
    CHECK(e.node() == 1);
    std::printf("caught: %s\n", e.what());
  }
  use(j.targets().at(1));
  std::printf("others go on\n");
  std::fflush(stdout);
  return 0;
}

const std::map<std::string, int (*)(int, char**)> modes{
    {"works", works},         {"sleeps", sleeps},
    {"two", two_jobs},        {"multiple", multiple},
    {"part", part},           {"launched", launched},
    {"single", single},       {"funneled", funneled},
    {"finalized", finalized}, {"serialized", serialized},
    {"leaves", leaves},       {"dies", dies},
    {"barriers", barriers},   {"called", called},
    {"too-early", too_early}, {"frees", frees}};

} // namespace
} // namespace farcall::test

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): LeakSanitizer's name
extern "C" int __lsan_is_turned_off();
// Open MPI leaks memory, in modules that are unloaded before the leak check.
extern "C" int __lsan_is_turned_off() { return 1; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

int main(int argc, char** argv) {
  const auto mode = farcall::test::modes.find(argc > 1 ? argv[1] : "");
  return mode == farcall::test::modes.end() ? 99 : mode->second(argc, argv);
}
