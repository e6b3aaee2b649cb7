// SPDX-License-Identifier: Apache-2.0

// Tests the interface of process managers, without a job: each process puts a value of 3,000 bytes,
// and reads the values of all others. Started by mpiexec, srun or mpirun; exit status 77 if no
// launcher has started it. Arguments: "die" makes the last process end without notice after the
// fence, "abort" makes it end all with status 7.
#include <farcall/base/error.hpp>
#include <farcall/job/pmi_manager.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include <unistd.h>

namespace fc = farcall;

namespace {

constexpr std::size_t value_bytes = 3000;

/// Bytes of any value, different for each process.
std::string value_of(fc::node_id rank) {
  std::string bytes;
  for (std::size_t i = 0; i < value_bytes; ++i)
    bytes += static_cast<char>((i * i + i / 7 + rank * 31) % 256);
  return bytes;
}

int exchange(const std::string& end) {
  const auto deadline = fc::deadline_after(std::chrono::seconds(20));
  const auto manager = fc::pmi_manager::find(deadline);
  if (manager == nullptr) {
    std::puts("no launcher has started this program");
    return 77;
  }
  const fc::node_id rank = manager->rank();
  manager->put("card", value_of(rank));
  manager->put("nothing", "");
  manager->fence(deadline);
  fc::node_id good = 0;
  for (fc::node_id from = 0; from < manager->size(); ++from) {
    if (manager->get(from, "card", deadline) == value_of(from) &&
        manager->get(from, "nothing", deadline).empty())
      ++good;
  }
  // Print with one write, so that lines of several processes do not mix.
  const std::string line = std::to_string(rank) + " of " + std::to_string(manager->size()) +
                           " by " + manager->name() + ": read " + std::to_string(good) + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  manager->fence(deadline);
  if (rank + 1 == manager->size()) {
    if (end == "die") ::_exit(3);
    if (end == "abort") manager->abort(7, "so it was asked for");
  }
  if (!end.empty()) {
    // The launcher ends this process, or does not report the end of the last one.
    try {
      manager->fence(fc::deadline_after(std::chrono::seconds(3)));
    } catch (const fc::error& e) {
      std::printf("%u: %s\n", rank, e.what());
    }
  }
  manager->finalize();
  return good == manager->size() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return exchange(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
