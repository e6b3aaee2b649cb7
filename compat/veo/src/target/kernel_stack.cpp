// SPDX-License-Identifier: Apache-2.0
#include "kernel_stack.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

// Size of the inaccessible memory below a kernel's stack. It is large, because kernels with large
// frames access addresses far beyond the end of the stack.
constexpr std::size_t guard_bytes = std::size_t{1} << 20;

/// Bytes above the top of a kernel's stack. They are readable memory for functions such as
/// syscall(), which read arguments that the caller has not passed.
constexpr std::size_t margin_bytes = 256;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Limit the size, so that the sum below cannot overflow. mmap() refuses sizes as large as this
  // limit, so that the caller still gets an error.
  bytes = std::min(bytes, std::numeric_limits<std::size_t>::max() / 2);
  return (bytes + margin_bytes + page - 1) / page * page;
}

} // namespace

kernel_stack::kernel_stack(std::size_t bytes) : mapped_(whole_pages(bytes) + guard_bytes) {
  void* memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(),
                            "mapping a stack of " + std::to_string(bytes) +
                                " bytes for kernels (ask for a smaller one, or raise 'ulimit -v')");
  }
  mapping_ = static_cast<std::byte*>(memory);
  if (::mprotect(memory, guard_bytes, PROT_NONE) != 0) {
    const int reason = errno;
    ::munmap(memory, mapped_);
    throw std::system_error(reason, std::generic_category(), "protecting the end of a stack");
  }
}

kernel_stack::~kernel_stack() { ::munmap(mapping_, mapped_); }

std::size_t kernel_stack::bytes() const noexcept { return mapped_ - guard_bytes - margin_bytes; }

void* kernel_stack::top() const noexcept { return mapping_ + mapped_ - margin_bytes; }

} // namespace farcall::veo
