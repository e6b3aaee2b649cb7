// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/support.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/// Random operations on a file, each compared with the same operation on a copy in memory. Like
/// fsx.
namespace farcall::test {

/// A file, and its expected content.
class file_model {
 public:
  /// With `maps`, some operations use a shared mapping of the file.
  file_model(std::string path, std::uint64_t seed, bool maps)
      : path_(std::move(path)), random_(seed), maps_(maps) {
    for (std::size_t i = 0; i < pool_.size(); ++i)
      pool_[i] = static_cast<char>(scrambled(i));
    reopen(0);
  }
  file_model(const file_model&) = delete;
  file_model& operator=(const file_model&) = delete;
  ~file_model() { ::close(fd_); }

  /// Returns the first difference; empty if there was none.
  std::string run(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations && wrong_.empty(); ++i) {
      const std::uint64_t which = below(100);
      if (maps_ && below(5) == 0) {
        use_mapping();
      } else if (which < 25) {
        read_at(false);
      } else if (which < 45) {
        write_at(false);
      } else if (which < 55) {
        read_at(true);
      } else if (which < 65) {
        write_at(true);
      } else if (which < 75) {
        read_here();
      } else if (which < 85) {
        write_here();
      } else if (which < 90) {
        seek();
      } else if (which < 94) {
        truncate();
      } else if (which < 97) {
        reopen(below(2) == 0 ? 0 : O_APPEND);
      } else {
        look();
      }
      if (!wrong_.empty()) wrong_ += ", operation " + std::to_string(i);
    }
    if (wrong_.empty()) compare_all();
    return wrong_;
  }

 private:
  static constexpr std::size_t max_file = 1'000'000;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  /// Mostly short lengths; some of several pieces.
  std::size_t length() {
    const std::uint64_t kind = below(100);
    return below(kind < 70 ? 2'000 : kind < 99 ? 30'000 : 2'500'000);
  }
  std::size_t place() { return below(content_.size() + 10'000); }
  void expect(bool is_so, const char* what) {
    if (!is_so && wrong_.empty()) wrong_ = std::string(what) + ", errno " + std::to_string(errno);
  }

  /// Returns a part of random bytes that were made once, which is faster than making new ones.
  std::vector<char> new_bytes(std::size_t n) {
    const std::size_t from = below(1000);
    return {pool_.begin() + static_cast<std::ptrdiff_t>(from),
            pool_.begin() + static_cast<std::ptrdiff_t>(from + n)};
  }
  [[nodiscard]] std::size_t there(std::size_t at, std::size_t n) const {
    return at >= content_.size() ? 0 : std::min(n, content_.size() - at);
  }
  void check(const std::vector<char>& got, std::size_t at, std::int64_t result, const char* what) {
    const std::size_t n = there(at, got.size());
    expect(result == static_cast<std::int64_t>(n), what);
    if (wrong_.empty())
      expect(n == 0 || std::memcmp(got.data(), content_.data() + at, n) == 0, what);
  }
  void put(const std::vector<char>& bytes, std::size_t at) {
    if (bytes.empty()) return;
    if (at + bytes.size() > content_.size()) content_.resize(at + bytes.size());
    std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  /// Divides `bytes` into some parts.
  std::vector<iovec> parts_of(std::vector<char>& bytes) {
    std::vector<iovec> parts;
    for (std::size_t at = 0; at < bytes.size() || parts.empty();) {
      const std::size_t n = parts.size() == 7 ? bytes.size() - at : below(bytes.size() - at + 1);
      parts.push_back({bytes.data() + at, n});
      at += n;
      if (parts.size() == 8) break;
    }
    return parts;
  }

  void read_at(bool in_parts) {
    const std::size_t at = place();
    std::vector<char> got(length());
    std::int64_t result = 0;
    if (in_parts) {
      const std::vector<iovec> parts = parts_of(got);
      result = ::preadv(fd_, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(at));
      // The last part takes the rest of the bytes, unless there were few.
      std::size_t all = 0;
      for (const iovec& p : parts)
        all += p.iov_len;
      got.resize(all);
    } else {
      result = ::pread(fd_, got.data(), got.size(), static_cast<off_t>(at));
    }
    check(got, at, result, in_parts ? "preadv" : "pread");
  }

  void write_at(bool in_parts) {
    // With O_APPEND, Linux writes to the end, whatever the offset.
    const std::size_t at = appends_ ? content_.size() : place();
    if (at > max_file) return truncate();
    std::vector<char> bytes = new_bytes(length());
    std::int64_t result = 0;
    if (in_parts) {
      const std::vector<iovec> parts = parts_of(bytes);
      std::size_t all = 0;
      for (const iovec& p : parts)
        all += p.iov_len;
      bytes.resize(all);
      result = ::pwritev(fd_, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(at));
    } else {
      result = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    }
    expect(result == static_cast<std::int64_t>(bytes.size()), in_parts ? "pwritev" : "pwrite");
    put(bytes, at);
  }

  void read_here() {
    std::vector<char> got(length());
    const std::int64_t result = ::read(fd_, got.data(), got.size());
    check(got, position_, result, "read");
    if (result > 0) position_ += static_cast<std::size_t>(result);
  }

  void write_here() {
    const std::size_t at = appends_ ? content_.size() : position_;
    if (at > max_file) return truncate();
    const std::vector<char> bytes = new_bytes(length());
    expect(::write(fd_, bytes.data(), bytes.size()) == static_cast<std::int64_t>(bytes.size()),
           "write");
    put(bytes, at);
    if (!bytes.empty()) position_ = at + bytes.size();
  }

  void seek() {
    const std::size_t to = place();
    std::int64_t result = 0;
    switch (below(3)) {
    case 0:
      result = ::lseek(fd_, static_cast<off_t>(to), SEEK_SET);
      break;
    case 1:
      result = ::lseek(fd_, static_cast<off_t>(to) - static_cast<off_t>(position_), SEEK_CUR);
      break;
    default:
      result = ::lseek(fd_, static_cast<off_t>(to) - static_cast<off_t>(content_.size()), SEEK_END);
    }
    expect(result == static_cast<std::int64_t>(to), "lseek");
    position_ = to;
  }

  void truncate() {
    const std::size_t size = std::min(place(), max_file);
    const bool by_path = below(2) == 0;
    expect((by_path ? ::truncate(path_.c_str(), static_cast<off_t>(size))
                    : ::ftruncate(fd_, static_cast<off_t>(size))) == 0,
           "truncate");
    content_.resize(size);
  }

  void reopen(int flags) {
    if (fd_ >= 0) expect(::close(fd_) == 0, "close");
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | flags, 0644);
    expect(fd_ >= 0, "open");
    appends_ = flags != 0;
    position_ = 0;
  }

  void look() {
    struct stat s{};
    expect((below(2) == 0 ? ::fstat(fd_, &s) : ::stat(path_.c_str(), &s)) == 0, "stat");
    expect(s.st_size == static_cast<off_t>(content_.size()), "size");
    if (below(4) == 0) expect(::fsync(fd_) == 0, "fsync");
  }

  /// Reads and writes at a place of a shared mapping of the whole file.
  void use_mapping() {
    if (content_.empty()) return;
    void* const mapped =
        ::mmap(nullptr, content_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    // Before Linux 6.6, a file of a mount that was opened with O_APPEND has no shared mappings.
    if (mapped == MAP_FAILED && errno == ENODEV && appends_) return;
    expect(mapped != MAP_FAILED, "mmap");
    if (mapped == MAP_FAILED) return;
    const std::size_t at = below(content_.size());
    const std::size_t n = std::min(length(), content_.size() - at);
    char* const place = static_cast<char*>(mapped) + at;
    expect(std::memcmp(place, content_.data() + at, n) == 0, "a read of a mapping");
    if (below(2) == 0) {
      const std::vector<char> bytes = new_bytes(n);
      std::memcpy(place, bytes.data(), n);
      put(bytes, at);
    }
    expect(below(4) != 0 || ::msync(mapped, content_.size(), MS_SYNC) == 0, "msync");
    expect(::munmap(mapped, content_.size()) == 0, "munmap");
  }

  void compare_all() {
    std::vector<char> got(content_.size());
    check(got, 0, ::pread(fd_, got.data(), got.size(), 0), "the whole file");
  }

  std::string path_;
  std::mt19937_64 random_;
  bool maps_;
  std::vector<char> pool_ = std::vector<char>(2'600'000);
  int fd_ = -1;
  bool appends_ = false;
  std::size_t position_ = 0;
  std::vector<char> content_;
  std::string wrong_;
};

/// Returns the number in a variable of the environment, if there is one.
inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 0) : otherwise;
}

/// Seed and number of operations of a run, from the environment or at random.
struct random_run {
  std::uint64_t seed = number_from("FARCALL_TEST_SEED", std::random_device()());
  /// Each operation takes a round trip, which may take milliseconds on a busy machine.
  std::uint64_t operations = number_from("FARCALL_TEST_OPERATIONS", 2'000);
};

} // namespace farcall::test
