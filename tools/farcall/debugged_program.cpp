// SPDX-License-Identifier: Apache-2.0

// Program for the tests of `farcall functions` and of debuggers.
//
//   debugged_program status S    calls every target; the host ends with status S
//   debugged_program held FILE   waits for FILE and calls every target; the host ends with status 6
//   debugged_program crash N     calls a handler of node N that faults, and prints the call's error
//   debugged_program variable N  prints X in the environment of node N; the host is node 0
//   debugged_program jobless     makes no job and ends
//   debugged_program endless     makes no job and does not end
#include <farcall/call/register_callables.hpp>
#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

namespace fc = farcall;

// Two programs are built from this source with small differences, which the tests look for.
#ifdef FARCALL_TEST_OTHER
using changed_number = long;
#else
using changed_number = int;
#endif

namespace app {

struct point {
  double x;
  double y;
#ifdef FARCALL_TEST_OTHER
  double z;
#endif
};

/// A type that has a packer.
struct text {
  std::string value;
};

struct adds {
  changed_number what;
  int operator()(int to) const { return to + static_cast<int>(what); }
};

int doubled(int n) { return 2 * n; }

/// This function is visible outside of this file, so that its lambda has the same name in all
/// programs. In functions that only one file knows, clang numbers the lambdas of each file
/// separately.
inline int next_by_lambda(const fc::node& target, int n) {
  return fc::sync(target, [](int from) { return from + 1; }, n);
}
changed_number changed(int n) { return n; }
double first_of(point p) { return p.x; }
std::map<std::string, int> lengths(const std::vector<std::string>& words) {
  std::map<std::string, int> all;
  for (const std::string& word : words)
    all[word] = static_cast<int>(word.size());
  return all;
}
text same(text t) { return t; }
#ifndef FARCALL_TEST_OTHER
int only_in_one(int n) { return n; }
#endif

[[gnu::noinline]] int stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
  return 1;
}
int crashes(std::uintptr_t address) { return stores_at(address) + 1; }

std::string variable() {
  const char* const value = std::getenv("X");
  return value == nullptr ? "unset" : value;
}

} // namespace app

template <>
struct farcall::packer<app::text> {
  static void pack(farcall::writer& w, const app::text& t) { w(t.value); }
  static app::text unpack(farcall::reader& r) { return {r.read<std::string>()}; }
};

namespace {

void wait_for_file(const char* file) {
  for (int i = 0; i < 6000 && ::access(file, F_OK) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int run(fc::job& job, std::string_view what, int number) {
  if (what == "variable") {
    const auto node = static_cast<fc::node_id>(number);
    std::printf("%s\n", node == 0 ? app::variable().c_str()
                                  : fc::sync(fc::node_at(node), fc::fn<app::variable>).c_str());
    return 0;
  }
  for (const fc::node& target : job.targets()) {
    if (app::next_by_lambda(target, 1) != 2 || fc::sync(target, app::doubled, 2) != 4) return 100;
  }
  if (what != "crash") return number;
  try {
    (void)fc::sync(fc::node_at(static_cast<fc::node_id>(number)), fc::fn<app::crashes>, 0x10);
  } catch (const fc::node_failed& e) {
    std::printf("%s\n", e.what());
    return 3;
  }
  return 101;
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "status";
  if (what == "jobless") return 0;
  if (what == "endless") ::pause();
  fc::job job{fc::job_options{}};
  fc::register_callables<fc::fn_t<&app::changed>, fc::fn_t<&app::first_of>, fc::fn_t<&app::lengths>,
                         fc::fn_t<&app::same>, app::adds>();
#ifndef FARCALL_TEST_OTHER
  fc::register_callables<fc::fn_t<&app::only_in_one>>();
#endif
  if (what == "held") {
    wait_for_file(argv[2]);
    return run(job, what, 6);
  }
  return run(job, what, argc > 2 ? std::atoi(argv[2]) : 0);
}
