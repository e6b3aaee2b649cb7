// SPDX-License-Identifier: Apache-2.0

// Program that the tests of timelines trace.
//
//   traced_program calls    makes calls of all kinds, alone and several at once, copies and ranges
//   traced_program many N   makes N empty calls
//   traced_program killed   calls a handler that kills its target
//   traced_program twice    makes two jobs, one after the other
//   traced_program fork     forks in the host; the child calls exit()
//   traced_program equals   makes a job of equals whose nodes call each other
#include <farcall/farcall.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace fc = farcall;

namespace {

int twice(int x) { return 2 * x; }
int long_one(int ms) {
  const fc::trace_range range("inside long_one");
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
void noted() {}
double sum(const std::vector<double>& of) { return of.empty() ? 0 : of.front(); }
int ask_host(int x) { return fc::sync(fc::host(), fc::fn<&twice>, x); }
void die() { std::raise(SIGKILL); }

void calls(int argc, char** argv) {
  fc::job job(argc, argv);
  const fc::node target = job.targets().front();
  for (int i = 0; i < 3; ++i)
    (void)fc::sync(target, fc::fn<&twice>, i);
  {
    const fc::trace_range range("together");
    std::vector<fc::future<int>> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(fc::async(target, fc::fn<&long_one>, 2));
    for (auto& one : all)
      (void)one.get();
  }
  fc::post(target, fc::fn<&noted>);
  // Larger than a record.
  (void)fc::sync(target, fc::fn<&sum>, std::vector<double>(100'000));
  (void)fc::sync(target, fc::fn<&ask_host>, 1);
  auto buffer = target.allocate<double>(1000);
  std::vector<double> values(1000);
  fc::put(values, buffer).get();
  fc::get(buffer, values).get();
}

void many(int argc, char** argv, int n) {
  fc::job job(argc, argv);
  for (int i = 0; i < n; ++i)
    (void)fc::sync(job.targets().front(), fc::fn<&twice>, i);
}

void killed(int argc, char** argv) {
  fc::job job(argc, argv);
  const fc::node target = job.targets().front();
  // long_one() runs so long that the recorded events are sent during the call.
  (void)fc::sync(target, fc::fn<&long_one>, 600);
  try {
    fc::sync(target, fc::fn<&die>);
  } catch (const fc::node_failed&) {
    std::puts("failed");
  }
}

void equals(int argc, char** argv) {
  fc::job job{fc::spmd, argc, argv};
  job.barrier();
  (void)fc::sync(job.node_at((job.rank() + 1) % static_cast<fc::node_id>(job.size())),
                 fc::fn<&twice>, 1);
  job.barrier();
}

int forks(int argc, char** argv) {
  fc::job job(argc, argv);
  (void)fc::sync(job.targets().front(), fc::fn<&twice>, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const fc::trace_range range("in the child");
    std::exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "calls") calls(argc, argv);
  if (what == "many") many(argc, argv, std::atoi(argv[2]));
  if (what == "killed") killed(argc, argv);
  if (what == "twice") {
    many(argc, argv, 1);
    many(argc, argv, 2);
  }
  if (what == "equals") equals(argc, argv);
  return what == "fork" ? forks(argc, argv) : 0;
}
