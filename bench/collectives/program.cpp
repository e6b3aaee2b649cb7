// SPDX-License-Identifier: Apache-2.0

// The nodes of a job of equals, which `farcall bench collectives` starts: a separate program,
// because every node of such a job runs main(). Node 0 prints what measure_collectives() says.
#include <bench/collectives/cases.hpp>

#include <farcall/farcall.hpp>

#include <cstdlib>

int main(int argc, char** argv) {
  namespace fc = farcall;
  fc::job job{fc::spmd, argc, argv};
  const auto run = [&](const fc::tool::collective_case& c, std::span<double> values) {
    switch (c.how) {
    case fc::tool::combines::all_reduce:
      return job.all_reduce(values, fc::sum());
    case fc::tool::combines::reduce:
      return job.reduce(values, fc::sum(), 0);
    case fc::tool::combines::scan:
      return job.scan(values, fc::sum());
    }
  };
  fc::tool::measure_collectives(job.rank() == 0, argc > 1 ? std::atoi(argv[1]) : 1, run,
                                [&] { job.barrier(); });
  return 0;
}
