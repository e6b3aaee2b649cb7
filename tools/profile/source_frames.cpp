// SPDX-License-Identifier: Apache-2.0
#include "source_frames.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/segment.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

using frames_taker = std::function<void(std::size_t, std::vector<source_frame>)>;

/// Memory that reading may use for each byte of a file. The memory is used for decompressed debug
/// information and for libdw's tables.
constexpr std::uint64_t memory_per_byte = 8;
constexpr std::uint64_t memory_for_any_file = std::uint64_t{2} << 30;
/// Maximum number of functions at one place. There are several if the compiler has inlined
/// functions into each other.
constexpr std::uint32_t max_source_frames = 1000;
/// Maximum number of bytes of all frames together.
constexpr std::size_t max_source_bytes = std::size_t{1} << 30;
constexpr std::size_t written_at_once = std::size_t{1} << 16;

/// Limits the address space of this process to its present size plus the memory that reading this
/// file needs.
void bound_memory(int file) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  struct stat status{};
  if (pages == 0 || fstat(file, &status) != 0) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0) return;
  const std::uint64_t wanted = pages * page_bytes() + memory_for_any_file +
                               memory_per_byte * static_cast<std::uint64_t>(status.st_size);
  limit.rlim_cur = std::min<std::uint64_t>(limit.rlim_max, wanted);
  setrlimit(RLIMIT_AS, &limit);
}

std::span<const std::byte> source_text(const std::string& text) {
  return std::as_bytes(std::span(text)).first(std::min(text.size(), max_source_text));
}

/// Writes frames into a pipe. The child process uses this class.
class frames_writer {
 public:
  explicit frames_writer(int pipe) : pipe_(pipe) {}

  void add(std::size_t index, const std::vector<source_frame>& frames) {
    byte_writer record;
    record.number(std::uint64_t{index});
    const auto count = std::min<std::size_t>(frames.size(), max_source_frames);
    record.number(static_cast<std::uint32_t>(count));
    for (const source_frame& frame : std::span(frames).first(count)) {
      record.block(source_text(frame.function));
      record.block(source_text(frame.file));
      record.number(frame.line);
    }
    to_write_.block(record.bytes());
    if (to_write_.bytes().size() >= written_at_once) flush();
  }
  void flush() {
    const std::vector<std::byte> bytes = std::exchange(to_write_, {}).bytes();
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t written = write(pipe_, bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw failed_run("nobody reads");
      at += static_cast<std::size_t>(written);
    }
  }

 private:
  int pipe_;
  byte_writer to_write_;
};

/// Reads the frames that the child has sent. The parent process uses this class. All data is
/// validated, because the child may have failed in any way.
class frames_reader {
 public:
  frames_reader(std::size_t addresses, const frames_taker& take)
      : addresses_(addresses), take_(take) {}

  /// Reads a piece of the child's output. Throws malformed_message.
  void read(std::span<const std::byte> more) {
    all_ += more.size();
    if (all_ > max_source_bytes) throw malformed_message("it is overlong");
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    std::span<const std::byte> left(bytes_);
    for (std::uint32_t size = 0; left.size() >= sizeof size;) {
      std::memcpy(&size, left.data(), sizeof size);
      if (left.size() - sizeof size < size) break;
      take_record(left.subspan(sizeof size, size));
      left = left.subspan(sizeof size + size);
    }
    bytes_.erase(bytes_.begin(), bytes_.end() - static_cast<std::ptrdiff_t>(left.size()));
  }

 private:
  void take_record(std::span<const std::byte> record) {
    byte_reader from(record, "a record of source lines");
    const auto index = from.number<std::uint64_t>();
    const auto count = from.number<std::uint32_t>();
    if (index >= addresses_ || count == 0 || count > max_source_frames)
      throw malformed_message("it names no address");
    std::vector<source_frame> frames(count);
    for (source_frame& frame : frames) {
      frame.function = text_of(from.block());
      frame.file = text_of(from.block());
      frame.line = from.number<std::uint32_t>();
    }
    take_(static_cast<std::size_t>(index), std::move(frames));
  }
  static std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::size_t addresses_;
  const frames_taker& take_;
  std::vector<std::byte> bytes_; ///< bytes of a record that is not complete yet
  std::size_t all_ = 0;
};

/// Reads the child's output until the child closes its end of the pipe, and then returns an empty
/// text. If the child sends nothing for too long, or sends invalid data, returns the reason as a
/// text.
std::string read_all(int pipe, frames_reader& to, std::chrono::milliseconds timeout) {
  std::vector<std::byte> buffer(written_at_once);
  while (true) {
    pollfd watched{pipe, POLLIN, 0};
    const int ready = poll(&watched, 1, static_cast<int>(timeout.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "it takes too long";
    const ssize_t got = read(pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    try {
      to.read(std::span(buffer).first(static_cast<std::size_t>(got)));
    } catch (const malformed_message& e) {
      return e.what();
    }
  }
}

} // namespace

std::string read_source_frames_apart(int file, std::span<const std::uint64_t> addresses,
                                     const frames_taker& take, std::chrono::milliseconds timeout) {
  if (!reads_debug_information() || addresses.empty()) return {};
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw failed_run("cannot make a pipe: " + reason_text(errno));
  const unique_fd read_end(ends[0]);
  unique_fd write_end(ends[1]);
  const pid_t parent = getpid();
  forked_process child([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (orphaned(parent)) return 1;
    rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    bound_memory(file);
    try {
      frames_writer to(write_end.get());
      read_source_frames(file, addresses, [&](std::size_t index, std::vector<source_frame> frames) {
        to.add(index, frames);
      });
      to.flush();
    } catch (const std::exception&) {
      return 1; // no message here, because the parent process reports the failure
    }
    return 0;
  });
  write_end = {};
  frames_reader to(addresses.size(), take);
  std::string why = read_all(read_end.get(), to, timeout);
  if (!why.empty()) return why;
  if (!child.wait_until(std::chrono::steady_clock::now() + timeout)) return "it takes too long";
  if (child.exit_status() == 0) return {};
  return "reading it ended with " + child.fate();
}

} // namespace farcall::tool
