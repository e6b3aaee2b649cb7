// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/transport/shm/open_files.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::shm {
namespace {

/// Largest number of a node's files: its receive segment, and the windows of its card.
constexpr std::uint32_t max_files = 17;

/// Returns the identity of this process's PID namespace, or zero if it cannot be read.
std::uint64_t namespace_of_processes() noexcept {
  struct stat of{};
  return ::stat("/proc/self/ns/pid", &of) == 0 ? of.st_ino : 0;
}

} // namespace

open_files open_files::describe(std::span<const memory_file> own) {
  open_files all;
  all.processes = namespace_of_processes();
  all.process = static_cast<std::uint64_t>(::getpid());
  for (const memory_file& f : own) {
    struct stat of{};
    if (::fstat(f.file, &of) != 0) throw_system_error("looking at the files of memory", errno);
    all.files.push_back({static_cast<std::uint32_t>(f.file), f.bytes, of.st_dev, of.st_ino});
  }
  return all;
}

std::vector<std::byte> open_files::encode() const {
  byte_writer w;
  w.number(processes);
  w.number(process);
  w.number(static_cast<std::uint32_t>(files.size()));
  for (const file& f : files) {
    w.number(f.number);
    w.number(f.bytes);
    w.number(f.device);
    w.number(f.inode);
  }
  return std::move(w).bytes();
}

open_files open_files::decode(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "the description of a node's memory files");
  open_files all;
  all.processes = r.number<std::uint64_t>();
  all.process = r.number<std::uint64_t>();
  const auto count = r.number<std::uint32_t>();
  if (count == 0 || count > max_files) throw malformed_message("a node has too many files");
  for (std::uint32_t i = 0; i < count; ++i) {
    file f;
    f.number = r.number<std::uint32_t>();
    f.bytes = r.number<std::uint64_t>();
    f.device = r.number<std::uint64_t>();
    f.inode = r.number<std::uint64_t>();
    all.files.push_back(f);
  }
  if (!r.empty())
    throw malformed_message(
        "the description of a node's memory files is followed by something else");
  return all;
}

bool open_files::is_near() const noexcept {
  return processes != 0 && processes == namespace_of_processes();
}

std::vector<segment> open_files::map(node_id owner) const {
  std::vector<segment> all;
  for (const file& f : files) {
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(f.number);
    // Check that the path leads to the expected file before opening it, because opening another
    // file could have side effects.
    struct stat of{};
    if (::stat(path.c_str(), &of) != 0) {
      if (errno == ENOENT || errno == ESRCH) {
        throw node_failed(node_text(owner) + " has ended: finding the memory of process " +
                              std::to_string(process) + " at " + path + ": " + reason_text(errno),
                          owner);
      }
      throw_system_error("finding the memory of process " + std::to_string(process) + " at " + path,
                         errno);
    }
    if (of.st_dev != f.device || of.st_ino != f.inode || !S_ISREG(of.st_mode)) {
      throw error("the memory of process " + std::to_string(process) + " is not at " + path);
    }
    unique_fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!opened) {
      throw_system_error("opening the memory of process " + std::to_string(process) + " at " + path,
                         errno);
    }
    all.push_back(segment::map(std::move(opened), f.bytes));
  }
  return all;
}

} // namespace farcall::shm
