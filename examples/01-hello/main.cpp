// SPDX-License-Identifier: Apache-2.0

// Calls a function in another process and prints what it returns.
//
//   example-01-hello                           one target process
//   example-01-hello --farcall-targets=shm:3   three of them
#include <farcall/farcall.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace fc = farcall;

std::string greet(const std::string& whom) {
  return "hello " + whom + ", this is node " + std::to_string(fc::this_node().id()) + ", process " +
         std::to_string(::getpid());
}

int main(int argc, char** argv) {
  // Starts this same program once more per target. In targets the constructor serves calls and
  // never returns, so the code after it runs on the host only.
  fc::job job{argc, argv};

  int wrong = 0;
  for (const fc::node& target : job.targets()) {
    const std::string greeting = fc::sync(target, greet, std::string{"world"});
    std::printf("%s\n", greeting.c_str());

    const fc::node_description about = target.description();
    const std::string expected = "hello world, this is node " + std::to_string(about.id) +
                                 ", process " + std::to_string(about.pid);
    if (greeting != expected || about.pid == static_cast<std::uint64_t>(::getpid())) ++wrong;
  }
  return wrong == 0 && job.size() == job.targets().size() + 1 ? 0 : 1;
}
