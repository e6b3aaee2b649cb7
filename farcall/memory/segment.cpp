// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/memory/segment.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

std::string limit_hint(int error_number) {
  if (error_number == EMFILE || error_number == ENFILE) {
    return " (each node takes a few descriptors; raise the limit with 'ulimit -n')";
  }
  return "";
}

/// Sets the size of a file like ftruncate(). A size beyond the limit of file sizes is an error, and
/// causes no SIGXFSZ.
int set_size(int file, std::size_t bytes) noexcept {
  sigset_t too_large;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&too_large);
  ::sigaddset(&too_large, SIGXFSZ);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &too_large, &before);
  const int status = ::ftruncate(file, static_cast<off_t>(bytes));
  const int reason = errno;
  if (status != 0 && reason == EFBIG && ::sigismember(&pending, SIGXFSZ) == 0) {
    constexpr timespec at_once{};
    while (::sigtimedwait(&too_large, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return status;
}

/// Excludes memory from core dumps, because a dump would touch every page, and fill the machine's
/// memory with unused parts of a heap.
std::byte* without_core_dump(std::byte* data, std::size_t bytes) noexcept {
  (void)::madvise(data, bytes, MADV_DONTDUMP);
  return data;
}

std::uint64_t inode_of(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_system_error("looking at shared memory", errno);
  return status.st_ino;
}

/// Returns the alignment of the addresses at which the file can be mapped. It is the size of a huge
/// page if the file has huge pages.
std::size_t alignment_of(int fd) noexcept {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return segment_alignment;
  const auto page = static_cast<std::size_t>(status.st_blksize);
  return is_power_of_two(page) ? std::max(page, segment_alignment) : segment_alignment;
}

[[noreturn]] void throw_unmapped(std::size_t bytes, int reason) {
  const std::string what = "mapping " + std::to_string(bytes) + " bytes of shared memory";
  if (reason != ENOMEM) throw_system_error(what, reason);
  throw segment_too_large(what + " (address space limit, 'ulimit -v'?): " + reason_text(reason));
}

std::byte* map_shared(int fd, std::size_t bytes) {
  constexpr int protection = PROT_READ | PROT_WRITE;
  constexpr int flags = MAP_SHARED | MAP_NORESERVE;
  const std::size_t alignment = alignment_of(fd);
  const auto gap_of = [alignment](const void* data) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return align_up(address, alignment) - address;
  };
  void* const anywhere = ::mmap(nullptr, bytes, protection, flags, fd, 0);
  if (anywhere != MAP_FAILED) {
    if (gap_of(anywhere) == 0) return without_core_dump(static_cast<std::byte*>(anywhere), bytes);
    ::munmap(anywhere, bytes);
  } else if (errno != EINVAL) {
    // Go on after EINVAL. An emulator causes this error, because it chooses addresses for huge
    // pages without regard to their alignment.
    throw_unmapped(bytes, errno);
  }
  // Reserve address space that is large enough to contain an aligned place.
  const std::size_t end = align_up(bytes, page_bytes());
  const std::size_t space_bytes = end + alignment;
  void* const space =
      ::mmap(nullptr, space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) throw_unmapped(bytes, errno);
  const std::size_t before = gap_of(space);
  std::byte* const data = static_cast<std::byte*>(space) + before;
  if (::mmap(data, bytes, protection, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int reason = errno;
    ::munmap(space, space_bytes);
    throw_unmapped(bytes, reason);
  }
  if (before != 0) ::munmap(space, before);
  ::munmap(data + end, space_bytes - before - end);
  return without_core_dump(data, bytes);
}

} // namespace

segment::segment(segment&& other) noexcept
    : file_(std::move(other.file_)), inode_(other.inode_),
      data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

segment& segment::operator=(segment&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(inode_, other.inode_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

segment::~segment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

segment segment::create(const std::string& label, std::size_t bytes, page_kind pages) {
  const unsigned flags =
      MFD_CLOEXEC | MFD_ALLOW_SEALING | (pages == page_kind::huge ? MFD_HUGETLB : 0U);
  segment made;
  made.file_ = unique_fd(make_memory_file(label.c_str(), flags));
  if (!made.file_) {
    const int reason = errno;
    throw_system_error("creating shared memory \"" + label + "\"" + limit_hint(reason), reason);
  }
  // Restrict access to the owner, because the default mode of a memory file is 0777.
  if (::fchmod(made.file_.get(), S_IRUSR | S_IWUSR) != 0) {
    throw_system_error("restricting shared memory \"" + label + "\" to its owner", errno);
  }
  if (set_size(made.file_.get(), bytes) != 0) {
    const int reason = errno;
    const std::string what =
        "sizing shared memory \"" + label + "\" to " + std::to_string(bytes) + " bytes";
    if (reason != EFBIG) throw_system_error(what, reason);
    throw segment_too_large(what + " (file size limit, 'ulimit -f'?): " + reason_text(reason));
  }
  // Seal the size. Otherwise a process that gets the file could shorten it, and the next access of
  // this process would be a SIGBUS.
  if (::fcntl(made.file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw_system_error("fixing the size of shared memory \"" + label + "\"", errno);
  }
  made.inode_ = inode_of(made.file_.get());
  made.data_ = map_shared(made.file_.get(), bytes);
  made.bytes_ = bytes;
  return made;
}

segment segment::map(unique_fd file, std::size_t bytes) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) throw_system_error("looking at shared memory", errno);
  if (static_cast<std::uint64_t>(status.st_size) < bytes) {
    throw error("shared memory of a peer has " + std::to_string(status.st_size) + " bytes where " +
                std::to_string(bytes) + " were announced");
  }
  segment made;
  made.inode_ = status.st_ino;
  made.data_ = map_shared(file.get(), bytes);
  made.bytes_ = bytes;
  made.file_ = std::move(file);
  return made;
}

bool segment::has_own_file() const noexcept {
  struct stat status{};
  return ::fstat(file_.get(), &status) == 0 && status.st_ino == inode_;
}

int segment::reserve(std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0 || offset > bytes_ || bytes > bytes_ - offset) return EINVAL;
  int reason = EBADF;
  if (has_own_file()) {
    do {
      const int status =
          ::fallocate(file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
      reason = status == 0 ? 0 : errno;
    } while (reason == EINTR);
    if (reason == 0 || reason == ENOSPC || reason == ENOMEM) return reason;
  }
#ifdef MADV_POPULATE_WRITE
  // Try madvise() instead of fallocate(), which a seccomp filter may refuse.
  if (::madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) == 0) return 0;
#endif
  return reason;
}

void segment::detach() noexcept {
  if (data_ == nullptr) return;
  (void)::mmap(data_, bytes_, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool segment::move_over(segment& unused) noexcept {
  if (data_ == nullptr || unused.data_ == nullptr || unused.bytes_ != bytes_) return false;
  if (::mremap(data_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, unused.data_) == MAP_FAILED) {
    // Map the addresses again, because the system may have unmapped them before it failed.
    unused.detach();
    return false;
  }
  data_ = std::exchange(unused.data_, nullptr);
  unused.bytes_ = 0;
  return true;
}

void segment::discard(std::size_t offset, std::size_t bytes) noexcept {
  const std::size_t first = align_up(offset, page_bytes());
  const std::size_t last = (offset + bytes) / page_bytes() * page_bytes();
  if (first >= last) return;
  if (has_own_file() &&
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(first), static_cast<off_t>(last - first)) == 0) {
    return;
  }
  // Ignore a failure, because it only keeps the memory in use.
  (void)::madvise(data_ + first, last - first, MADV_REMOVE);
}

void prefault(std::byte* data, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  (void)::madvise(data, bytes, MADV_POPULATE_WRITE);
#else
  (void)::madvise(data, bytes, MADV_WILLNEED);
#endif
}

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

} // namespace farcall
