// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/program.hpp"
#include "tests/different_builds/values.hpp"

#include <cstdio>

namespace different {

/// Callables that the host lacks, so that keys differ between the two function registries. Their
/// names sort before, between and after the others.
int a_first_extra(int v) { return v; }
int pxtra_in_the_middle(int v) { return v; }
int zz_last_extra(int v) { return v; }

int call_extras(const fc::node& there) {
  return fc::sync(there, fc::fn<&a_first_extra>, 1) +
         fc::sync(there, fc::fn<&pxtra_in_the_middle>, 2) +
         fc::sync(there, fc::fn<&zz_last_extra>, 3) +
         fc::sync(there, [](short v) { return int{v}; }, short{4});
}

/// Makes all calls to targets of another build; returns how many had wrong results.
int call_as_host(const char* targets) {
  farcall::job_options options;
  options.targets = targets;
  options.arguments = {"different-target"};
  const farcall::job job(options);
  int wrong = 0;
  for (const fc::node& there : job.targets()) {
    wrong += call_everything(there) == expected_results() ? 0 : 1;
    for (const fc::node& asked : {there, job.host()}) {
      for (const std::string& value : wrong_values_between(asked, there)) {
        std::printf("%s\n", value.c_str());
        ++wrong;
      }
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong;
}

} // namespace different

int main(int argc, char** argv) {
  farcall::serve_if_target();
  if (argc == 2) return different::call_as_host(argv[1]) == 0 ? 0 : 1;
  std::puts("This is a target for the tests of different programs; the tests start it.");
  return different::call_extras(farcall::node{});
}
