// SPDX-License-Identifier: Apache-2.0

// A job whose second process ends before it has joined: the first must not wait for ever.
#include "../src/process.hpp"

#include <farcall/async/call.hpp>
#include <farcall/offload/job.hpp>

#include <utility>

#include <unistd.h>

int main(int argc, char** argv) {
  farcall::job_options options;
  options.targets = "shm:1";
  options.survive = true;
  farcall::job made(farcall::spmd, argc, argv, options);
  made.barrier();
  if (made.rank() != 0) (void)made.wait_until([] { return false; });
  farcall::post(made.node_at(1), [] { ::_exit(0); });
  return farcall::am2::process::instance().join(std::move(made), false) ? 0 : 1;
}
