// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/shared_pages.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace farcall::files {

bool shared_pages::map(const unique_fd& file, std::uint64_t bytes) noexcept {
  struct stat s{};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (is_mapped() || bytes == 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      ::fstat(file.get(), &s) != 0 || static_cast<std::uint64_t>(s.st_size) < bytes)
    return false;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return false;
  begin_ = static_cast<std::byte*>(mapped);
  bytes_ = bytes;
  return true;
}

void* shared_pages::at(std::uint64_t position, std::uint64_t bytes) const noexcept {
  return position <= bytes_ && bytes <= bytes_ - position ? begin_ + position : nullptr;
}

void shared_pages::unmap() noexcept {
  if (is_mapped()) ::munmap(begin_, bytes_);
}

} // namespace farcall::files
