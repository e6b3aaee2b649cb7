// SPDX-License-Identifier: Apache-2.0

// A program that loads another MPI library, argument 1. Argument 2 is "linked" to imitate a program
// linked with it, or "used" for an interpreter whose module uses it. Prints whether the mpi
// transport is available. Exits with 77 if the library is not installed.

#include <farcall/transport/transport_entry.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool is_used = std::string(argv[2]) == "used";
  void* const library = ::dlopen(argv[1], RTLD_NOW | (is_used ? RTLD_LOCAL : RTLD_GLOBAL));
  if (library == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 77;
  }
  if (is_used) {
    auto* const init = reinterpret_cast<int (*)(int*, char***)>(::dlsym(library, "MPI_Init"));
    if (init == nullptr || init(nullptr, nullptr) != 0) return 3;
  }
  const auto* const row = farcall::find_transport(farcall::transports(), "mpi");
  if (row == nullptr) return 4;
  for (const farcall::availability& a : row->available())
    std::printf("%s: %s\n", a.present ? "present" : "absent", a.text.c_str());
  std::fflush(stdout);
  // Skip the exit handlers of the MPI library.
  std::_Exit(0);
}
