// SPDX-License-Identifier: Apache-2.0

// Reads a veprof.out from arbitrary bytes: gives a table or an error.

#include <tools/common/outcome.hpp>
#include <tools/profile/veprof.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A separate allocation, so that AddressSanitizer detects reads past the end.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto file = farcall::tool::parse_veprof(bytes, "input");
    if (!farcall::tool::veprof_table(file).ends_with(" samples\n")) std::abort();
  } catch (const farcall::tool::failed_run&) {
    return 0;
  }
  return 0;
}
