// SPDX-License-Identifier: Apache-2.0

// A program for launchers such as mpirun; its first argument selects a part.

#include <farcall/farcall.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

#define CHECK(condition)                                                                           \
  ((condition) ? void() : (std::printf("line %d: " #condition "\n", __LINE__), std::_Exit(98)))

unsigned id() { return this_node().id(); }
/// Returns no std::string: g++ and clang mangle static functions that return one differently.
std::vector<char> route_to(unsigned other) {
  const std::string by = node_at(other).description().transport;
  return {by.begin(), by.end()};
}
unsigned ask(unsigned other) { return sync(node_at(other), id); }
long long sum(remote_span<const int> v) {
  const auto here = v.local();
  return std::accumulate(here.begin(), here.end(), 0LL);
}
void die() { std::raise(SIGKILL); }

/// Returns the rank that the launcher has set.
unsigned launched_rank() {
  for (const char* name : {"PMIX_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) return static_cast<unsigned>(std::atoi(text));
  }
  return 0;
}

/// True for a device, which only its owner reaches, and which runs no host functions.
bool is_device(const node& n) { return n.description().transport.starts_with("cuda"); }

/// Every node except devices calls every other, and memory is copied there and back. Prints "A-B
/// transport".
int works(int argc, char** argv) {
  job j{argc, argv};
  const auto size = static_cast<unsigned>(j.size());
  std::printf("%u nodes\n", size);
  std::vector<int> values(50'000);
  std::iota(values.begin(), values.end(), 0);
  for (const node& n : j.targets()) {
    std::printf("0-%u %s\n", n.id(), n.description().transport.c_str());
    const auto there = n.allocate<int>(values.size());
    put(values, there).get();
    std::vector<int> back(values.size());
    get(there, back).get();
    CHECK(back == values);
    if (is_device(n)) continue;
    CHECK(sync(n, id) == n.id());
    CHECK(sync(n, ask, 0U) == 0);
    CHECK(sync(n, sum, there.span()) == 1'249'975'000LL);
    for (unsigned other = 1; other < size; ++other) {
      if (other == n.id() || is_device(j.node_at(other))) continue;
      CHECK(sync(n, ask, other) == other);
      const std::vector<char> by = sync(n, route_to, other);
      std::printf("%u-%u %.*s\n", n.id(), other, static_cast<int>(by.size()), by.data());
    }
  }
  return 0;
}

int equals(int argc, char** argv) {
  job j{spmd, argc, argv};
  const auto next = static_cast<unsigned>((j.rank() + 1) % j.size());
  CHECK(sync(j.node_at(next), id) == next);
  CHECK(j.all_gather(j.rank()).size() == j.size());
  j.barrier();
  j.close();
  std::printf("rank %u of %zu\n", j.rank(), j.size());
  return 0;
}

/// Checks the other targets after the first one was lost.
int others_go_on(const job& j) {
  for (std::size_t i = 1; i < j.targets().size(); ++i)
    CHECK(sync(j.targets()[i], id) == i + 1);
  std::printf("others go on\n");
  return 0;
}

/// Kills the first target; the others continue.
int dies(int argc, char** argv) {
  job j{argc, argv};
  try {
    async(j.targets().at(0), die).get();
  } catch (const node_failed& e) {
    CHECK(e.node() == 1);
    std::printf("caught: %s\n", e.what());
  }
  return others_go_on(j);
}

/// Prints "A has N workers".
int has_workers(int argc, char** argv) {
  job j{argc, argv};
  for (const node& n : j.targets()) {
    CHECK(sync(n, id) == n.id());
    std::printf("%u has %u workers\n", n.id(), n.description().workers);
  }
  return 0;
}

/// Calls the first target until it is lost; the test ends it. The others continue.
int loses(int argc, char** argv) {
  job j{argc, argv};
  for (const node& n : j.targets())
    CHECK(sync(n, id) == n.id());
  std::printf("all are there\n");
  std::fflush(stdout);
  try {
    for (;;)
      (void)sync(j.targets().at(0), id);
  } catch (const node_failed& e) {
    CHECK(e.node() == 1);
    std::printf("caught: %s\n", e.what());
  }
  return others_go_on(j);
}

/// Stops the first target, which the host kills if it can.
int stops(int argc, char** argv) {
  job j{argc, argv};
  try {
    async(j.targets().at(0), [] { std::raise(SIGSTOP); }).get();
  } catch (const node_failed& e) {
    std::printf("caught: %s\n", e.what());
  }
  return 0;
}

/// Process 1 makes no job; argument 2 selects what it does instead.
int misses(int argc, char** argv) {
  if (launched_rank() == 1) {
    if (std::string(argv[2]) == "waits") ::pause();
    return std::atoi(argv[2]);
  }
  try {
    job j{argc, argv};
  } catch (const start_failed& e) {
    std::printf("start_failed: %s\n", e.what());
    return 7;
  }
  return 0;
}

/// Process 0 exits with success, without a job.
int misses_host(int argc, char** argv) {
  if (launched_rank() == 0) return 0;
  try {
    job j{argc, argv};
  } catch (const start_failed& e) {
    std::printf("start_failed: %s\n", e.what());
    return 7;
  }
  return 0;
}

/// Only the first job consists of all processes.
int twice(int argc, char** argv) {
  {
    job first{argc, argv};
    std::printf("first of %zu\n", first.size());
  }
  job second{argc, argv};
  CHECK(sync(second.targets().at(0), id) == 1);
  std::printf("second of %zu\n", second.size());
  return 0;
}

/// A program started by a node makes its own job, although it inherits the node's environment.
int starts_another(int argc, char** argv) {
  job j{argc, argv};
  const auto start = [](const std::string& program) {
    return std::system((program + " works").c_str());
  };
  CHECK(start(argv[0]) == 0);
  CHECK(sync(j.targets().at(0), start, std::string(argv[0])) == 0);
  return 0;
}

/// The test kills the host, which must end all processes.
int host_ends(int argc, char** argv) {
  job j{argc, argv};
  std::printf("host %d\n", ::getpid());
  std::fflush(stdout);
  sync(j.targets().at(0), [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  return 0;
}

const std::map<std::string, int (*)(int, char**)> modes{{"works", works},
                                                        {"equals", equals},
                                                        {"dies", dies},
                                                        {"misses", misses},
                                                        {"twice", twice},
                                                        {"host", host_ends},
                                                        {"starts", starts_another},
                                                        {"loses", loses},
                                                        {"stops", stops},
                                                        {"misses-host", misses_host},
                                                        {"has-workers", has_workers}};

} // namespace
} // namespace farcall::test

int main(int argc, char** argv) {
  const auto mode = farcall::test::modes.find(argc > 1 ? argv[1] : "");
  return mode == farcall::test::modes.end() ? 99 : mode->second(argc, argv);
}
