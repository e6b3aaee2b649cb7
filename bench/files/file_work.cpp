#include "file_work.hpp"

#include <bench/runner/spin_barrier.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t buffer_alignment = 4096;

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

/// Returns the offset of a call.
std::uint64_t offset_of(const file_work& work, std::uint64_t call) {
  const std::uint64_t records = work.bytes / work.record;
  // The multiplier is odd and large: offsets repeat late, and consecutive ones are far apart.
  const std::uint64_t record =
      work.access == file_access::read_anywhere ? (call * 0x9e3779b97f4a7c15U >> 20) : call;
  return record % records * work.record;
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

void work_of_thread(const file_work& work, std::uint64_t thread, spin_barrier& barrier) {
  const std::string path = file_of(work, thread);
  unique_fd file = open_file(path, writes(work.access) ? O_WRONLY : O_RDONLY);
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
  if (writes(work.access) && ::fsync(file.get()) != 0) give_up(path, "fsync");
  if (::close(file.release()) != 0) give_up(path, "close");
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
  spin_barrier barrier(work.threads + 1);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(work.threads);
  for (std::uint64_t t = 0; t < work.threads; ++t) {
    threads.emplace_back([&, t] {
      try {
        work_of_thread(work, t, barrier);
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
