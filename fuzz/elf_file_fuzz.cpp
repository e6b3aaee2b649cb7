// SPDX-License-Identifier: Apache-2.0

// Reads arbitrary bytes as a program: finds functions, or none.

#include <farcall/base/unique_fd.hpp>

#include <tools/common/elf_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using farcall::tool::elf_file;
  const farcall::unique_fd file(::memfd_create("program", MFD_CLOEXEC));
  require(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  elf_file read(file.get());
  for (std::uint64_t offset = 0; offset < size; offset += 16) {
    const auto address = read.address_of(offset);
    require(read.function_at(address.value_or(offset)).size() <= elf_file::max_name);
  }
  require(read.build_id().size() <= 2 * size && read.debug_link().size() <= size);
  elf_file other(-1);
  other.take_functions_of(read);
  require(other.has_full_symbols() == read.has_full_symbols());
  return 0;
}
