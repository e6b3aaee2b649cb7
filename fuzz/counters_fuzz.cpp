// SPDX-License-Identifier: Apache-2.0

// Reads arbitrary bytes as the counters of another process: gives counts or an error.

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/counter_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace farcall;

void require(bool condition) {
  if (!condition) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const unique_fd file(::memfd_create("farcall-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  require(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  try {
    const counter_reader reader(file.get());
    const process_counters counts = reader.read();
    require(reader.running().size() == counts.workers.size());
    // Each block takes a cache line of the file, so the file bounds their number.
    require(counts.callers.size() + counts.servers.size() + counts.workers.size() +
                counts.threads.size() + counts.peers.size() + counts.named.size() <=
            size / line_bytes);
    require(counts.functions.size() <= size);
  } catch (const error&) {
    return 0;
  }
  return 0;
}
