// SPDX-License-Identifier: Apache-2.0
#include "file_work.hpp"

#include <bench/runner/spin_barrier.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t buffer_alignment = 4096;
/// Size of the buffer between file and record, which is the size of a large request to the host.
constexpr std::size_t max_copied = std::size_t{1} << 20;

std::string file_of(const file_work& work, std::uint64_t thread) {
  return fmt::format("{}.{}", work.path, thread);
}

std::uint64_t word_at(std::uint64_t offset, std::uint64_t thread) {
  return (offset + 1) * 0x9e3779b97f4a7c15U + thread;
}

[[noreturn]] void give_up(const std::string& path, const char* what) {
  throw failed_run(fmt::format("{}: {}: {}", path, what, reason_text(errno)));
}

unique_fd open_file(const std::string& path, int flags) {
  unique_fd file(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) give_up(path, "cannot be opened");
  return file;
}

class record_buffer {
 public:
  explicit record_buffer(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(
                           ::operator new(bytes, std::align_val_t{buffer_alignment}))) {
    std::memset(memory_, 0, bytes);
  }
  ~record_buffer() { ::operator delete(memory_, std::align_val_t{buffer_alignment}); }
  record_buffer(const record_buffer&) = delete;
  record_buffer& operator=(const record_buffer&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

  void fill(std::uint64_t offset, std::uint64_t thread) {
    for (std::size_t at = 0; at < bytes_; at += sizeof(std::uint64_t))
      put(at, word_at(offset + at, thread));
  }
  /// Writes the first and last word only; fill() has written the words between them.
  void mark(std::uint64_t offset, std::uint64_t thread) {
    put(0, word_at(offset, thread));
    put(bytes_ - sizeof(std::uint64_t), word_at(offset + bytes_ - sizeof(std::uint64_t), thread));
  }
  [[nodiscard]] bool has_ends(std::uint64_t offset, std::uint64_t thread) const {
    const std::size_t last = bytes_ - sizeof(std::uint64_t);
    return get(0) == word_at(offset, thread) && get(last) == word_at(offset + last, thread);
  }

 private:
  void put(std::size_t at, std::uint64_t word) { std::memcpy(memory_ + at, &word, sizeof word); }
  [[nodiscard]] std::uint64_t get(std::size_t at) const {
    std::uint64_t word = 0;
    std::memcpy(&word, memory_ + at, sizeof word);
    return word;
  }

  std::size_t bytes_;
  std::byte* memory_;
};

bool writes(file_access access) {
  return access == file_access::write || access == file_access::write_in_a_row;
}

/// Returns a number below `count`, which is a power of two. Each call below `count` gets another
/// number, so that no record is read twice. Consecutive calls get numbers that are far apart.
std::uint64_t shuffled(std::uint64_t call, std::uint64_t count) {
  const int bits = static_cast<int>(std::bit_width(count)) - 1;
  const int half = std::max(1, bits / 2);
  std::uint64_t number = call & (count - 1);
  for (const std::uint64_t odd : {0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U}) {
    number = number * odd & (count - 1);
    number ^= number >> half;
  }
  return number;
}

/// Returns the offset of a call.
std::uint64_t offset_of(const file_work& work, std::uint64_t call) {
  const std::uint64_t records = work.bytes / work.record;
  const std::uint64_t record = work.access == file_access::read_anywhere
                                   ? shuffled(call, std::bit_floor(records))
                                   : call % records;
  return record * work.record;
}

ssize_t call_once(const file_work& work, int file, record_buffer& buffer, std::uint64_t offset) {
  const auto at = static_cast<off_t>(offset);
  switch (work.access) {
  case file_access::write:
    return ::pwrite(file, buffer.data(), buffer.size(), at);
  case file_access::write_in_a_row:
    return ::write(file, buffer.data(), buffer.size());
  case file_access::read_in_a_row:
    return ::read(file, buffer.data(), buffer.size());
  default:
    return ::pread(file, buffer.data(), buffer.size(), at);
  }
}

/// Makes the system read from the file's source, and no more than was asked for if the offsets are
/// random.
void forget_cached(const file_work& work, int file) {
  if (!work.drops_cache) return;
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  if (work.access == file_access::read_anywhere)
    (void)::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
}

void close_file(const file_work& work, unique_fd file, const std::string& path) {
  if (writes(work.access) && ::fsync(file.get()) != 0) give_up(path, "fsync");
  if (::close(file.release()) != 0) give_up(path, "close");
}

void work_of_thread(const file_work& work, std::uint64_t thread, spin_barrier& barrier) {
  const std::string path = file_of(work, thread);
  unique_fd file = open_file(path, writes(work.access) ? O_WRONLY : O_RDONLY);
  forget_cached(work, file.get());
  record_buffer buffer(work.record);
  barrier.arrive_and_wait();
  barrier.arrive_and_wait(); // the clock was read between the two
  for (std::uint64_t call = 0; call < work.calls; ++call) {
    const std::uint64_t offset = offset_of(work, call);
    if (writes(work.access)) buffer.mark(offset, thread);
    const ssize_t done = call_once(work, file.get(), buffer, offset);
    if (done != static_cast<ssize_t>(work.record)) give_up(path, "a call did not do all");
    if (!writes(work.access) && !buffer.has_ends(offset, thread))
      throw failed_run(fmt::format("{}: other bytes at offset {}", path, offset));
  }
  close_file(work, std::move(file), path);
}

/// Moves a record in pieces, each through the buffer.
bool copy_record(const file_work& work, int file, record_buffer& record, record_buffer& buffer,
                 std::uint64_t offset) {
  for (std::size_t begun = 0; begun < record.size();) {
    const std::size_t bytes = std::min(buffer.size(), record.size() - begun);
    const auto at = static_cast<off_t>(offset + begun);
    if (writes(work.access)) std::memcpy(buffer.data(), record.data() + begun, bytes);
    const ssize_t done = writes(work.access) ? ::pwrite(file, buffer.data(), bytes, at)
                                             : ::pread(file, buffer.data(), bytes, at);
    if (done != static_cast<ssize_t>(bytes)) return false;
    if (!writes(work.access)) std::memcpy(record.data() + begun, buffer.data(), bytes);
    begun += bytes;
  }
  return true;
}

/// Does every call whose remainder by `sharing` is `worker`'s, on the file that `sharing` workers
/// share.
void copied_work_of_thread(const file_work& work, std::uint64_t worker, std::uint64_t sharing,
                           spin_barrier& barrier) {
  const std::uint64_t thread = worker / sharing;
  const std::string path = file_of(work, thread);
  unique_fd file = open_file(path, writes(work.access) ? O_WRONLY : O_RDONLY);
  record_buffer record(work.record);
  record_buffer buffer(std::min(work.record, max_copied));
  barrier.arrive_and_wait();
  barrier.arrive_and_wait(); // the clock was read between the two
  for (std::uint64_t call = worker % sharing; call < work.calls; call += sharing) {
    const std::uint64_t offset = offset_of(work, call);
    if (writes(work.access)) record.mark(offset, thread);
    if (!copy_record(work, file.get(), record, buffer, offset))
      give_up(path, "a call did not do all");
  }
  close_file(work, std::move(file), path);
}

/// Calls `body(i, barrier)` in threads, and returns nanoseconds from their common beginning to
/// their end. `body` arrives at the barrier twice before it begins.
template <class Body>
double time_threads(std::uint64_t count, const Body& body) {
  spin_barrier barrier(count + 1);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(count);
  for (std::uint64_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t, barrier);
      } catch (...) {
        failures[t] = std::current_exception();
        barrier.arrive_and_drop();
      }
    });
  }
  barrier.arrive_and_wait();
  const stopwatch watch;
  barrier.arrive_and_wait();
  for (std::thread& t : threads)
    t.join();
  const double taken = watch.nanoseconds();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return taken;
}

} // namespace

void make_files(const file_work& work) {
  record_buffer buffer(std::size_t{1} << 20);
  for (std::uint64_t thread = 0; thread < work.threads; ++thread) {
    const unique_fd file = open_file(file_of(work, thread), O_WRONLY | O_CREAT | O_TRUNC);
    for (std::uint64_t offset = 0; offset < work.bytes; offset += buffer.size()) {
      buffer.fill(offset, thread);
      if (::write(file.get(), buffer.data(), buffer.size()) != static_cast<ssize_t>(buffer.size()))
        give_up(file_of(work, thread), "cannot be written");
    }
  }
}

double do_file_work(const file_work& work) {
  return time_threads(work.threads, [&](std::uint64_t thread, spin_barrier& barrier) {
    work_of_thread(work, thread, barrier);
  });
}

double do_copied_work(const file_work& work) {
  const std::uint64_t sharing = work.threads == 1 ? 2 : 1;
  return time_threads(work.threads * sharing, [&](std::uint64_t worker, spin_barrier& barrier) {
    copied_work_of_thread(work, worker, sharing, barrier);
  });
}

bool is_fuse_mount(const std::string& path) {
  struct statfs s{};
  return ::statfs(path.c_str(), &s) == 0 && s.f_type == FUSE_SUPER_MAGIC;
}

void check_files(const file_work& work) {
  record_buffer buffer(work.record);
  for (std::uint64_t thread = 0; thread < work.threads; ++thread) {
    const unique_fd file = open_file(file_of(work, thread), O_RDONLY);
    for (std::uint64_t offset = 0; offset < work.bytes; offset += buffer.size()) {
      if (::read(file.get(), buffer.data(), buffer.size()) != static_cast<ssize_t>(buffer.size()) ||
          !buffer.has_ends(offset, thread)) {
        throw failed_run(fmt::format("{}: other bytes at offset {} after writes",
                                     file_of(work, thread), offset));
      }
    }
  }
}

} // namespace farcall::tool
