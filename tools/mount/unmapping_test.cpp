// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

/// Tests of targets that unmap changes of their own files, which other threads of the same target
/// write to the host.
namespace farcall::test::unmapping_test {
namespace {

constexpr std::chrono::seconds bound{60};
constexpr std::size_t mapped_bytes = std::size_t{24} << 20;

class unmapping_targets : public mounting_job {
 protected:
  void SetUp() override {
    mounting_job::SetUp();
    if (!IsSkipped()) write_file(in("f"), std::string(mapped_bytes, 'a'));
  }

  /// Calls a function with the path of a file on the target. Returns its result. Kills the target
  /// if it does not return.
  std::string call(std::string (*use)(const std::string&)) {
    const pid_t target = sync(target_, ::getpid);
    auto called = async(target_, use, in("f"));
    if (called.wait_for(bound)) return called.get();
    ::kill(target, SIGKILL);
    return all_end_within({target}, bound) ? "the call does not end" : "the target does not end";
  }
};

INSTANTIATE_TEST_SUITE_P(over, unmapping_targets, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

/// Threads that ask the system for memory as long as the object lives, as threads of any program
/// may.
class memory_users {
 public:
  memory_users() {
    for (std::thread& each : threads_) {
      each = std::thread([this] {
        while (!ends_.load()) {
          void* const memory =
              ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          (void)::munmap(memory, 4096);
        }
      });
    }
  }
  memory_users(const memory_users&) = delete;
  memory_users& operator=(const memory_users&) = delete;
  ~memory_users() {
    ends_.store(true);
    for (std::thread& each : threads_)
      each.join();
  }

 private:
  std::atomic<bool> ends_{false};
  std::array<std::thread, 2> threads_;
};

/// Maps a file, and changes all of its bytes to `to`.
char* map_changed(int file, char to) {
  void* const mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return nullptr;
  std::memset(mapped, to, mapped_bytes);
  return static_cast<char*>(mapped);
}

std::string unmap(const std::string& path) {
  const memory_users others;
  const unique_fd file(::open(path.c_str(), O_RDWR));
  char* const mapped = map_changed(file.get(), 'b');
  if (mapped == nullptr) return "mmap";
  return ::munmap(mapped, mapped_bytes) == 0 ? "" : "munmap";
}

TEST_P(unmapping_targets, write_their_changes) {
  EXPECT_EQ(call(unmap), "");
  EXPECT_EQ(content_of_file(in("f")), std::string(mapped_bytes, 'b'));
}

/// Uses the file after unmapping it, in ways that would show that a change is written late.
std::string use_after_unmapping(const std::string& path) {
  const memory_users others;
  const unique_fd file(::open(path.c_str(), O_RDWR));
  for (const char change : {'b', 'c', 'd'}) {
    char* const mapped = map_changed(file.get(), change);
    if (mapped == nullptr) return "mmap";
    if (::munmap(mapped, mapped_bytes) != 0) return "munmap";
    if (::pwrite(file.get(), "x", 1, 5'000) != 1) return "pwrite";
    (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::string seen(mapped_bytes, '\0');
    if (::pread(file.get(), seen.data(), seen.size(), 0) != static_cast<ssize_t>(mapped_bytes))
      return "pread";
    std::string expected(mapped_bytes, change);
    expected[5'000] = 'x';
    if (seen != expected) return "other bytes";
  }
  if (::ftruncate(file.get(), 10'000) != 0 || ::fsync(file.get()) != 0) return "ftruncate";
  return "";
}

TEST_P(unmapping_targets, see_their_changes_afterwards) {
  EXPECT_EQ(call(use_after_unmapping), "");
  EXPECT_EQ(content_of_file(in("f")), std::string(5'000, 'd') + "x" + std::string(4'999, 'd'));
}

/// Unmaps changes by mapping other memory there, for which the system locks all memory.
std::string map_over(const std::string& path) {
  const memory_users others;
  const unique_fd file(::open(path.c_str(), O_RDWR));
  char* const mapped = map_changed(file.get(), 'b');
  if (mapped == nullptr) return "mmap";
  void* const other = ::mmap(mapped, mapped_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (other != mapped) return "mmap of other memory";
  return ::munmap(mapped, mapped_bytes) == 0 ? "" : "munmap";
}

TEST_P(unmapping_targets, map_other_memory_over_their_changes) {
  EXPECT_EQ(call(map_over), "");
  EXPECT_EQ(content_of_file(in("f")), std::string(mapped_bytes, 'b'));
}

/// Reads pages of a mapping, which another thread drops again. A read of a page that was dropped
/// twice keeps the lock of the process's memory until the page is there.
std::string read_dropped_pages(const std::string& path) {
  const memory_users others;
  const unique_fd file(::open(path.c_str(), O_RDONLY));
  void* const mapped = ::mmap(nullptr, mapped_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return "mmap";
  std::atomic<bool> ends{false};
  std::thread dropper([&] {
    while (!ends.load()) {
      (void)::madvise(mapped, mapped_bytes, MADV_DONTNEED);
      (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  });
  std::size_t wrong = 0;
  std::size_t at = 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    at = (at * 1'103'515'245 + 12'345) % mapped_bytes;
    if (static_cast<const volatile char*>(mapped)[at] != 'a') ++wrong;
  }
  ends.store(true);
  dropper.join();
  (void)::munmap(mapped, mapped_bytes);
  return wrong == 0 ? "" : "wrong bytes";
}

/// If a thread that serves the mount needs the lock, too, the helper ends the mount. The
/// sanitizers' memory, and lanes over TCP, may need it.
TEST_P(unmapping_targets, read_pages_that_are_dropped_or_end) {
  try {
    EXPECT_EQ(call(read_dropped_pages), "");
  } catch (const node_failed& e) {
    EXPECT_NE(std::string(e.what()).find("SIGBUS"), std::string::npos) << e.what();
  }
}

/// Ends a mount by the system's number of its device, as root. Without that, a failure of the next
/// test would leave a process for whose end all readers of /proc wait.
void abort_mount(unsigned device) {
  const std::string folder = "/sys/fs/fuse/connections";
  const std::string file = folder + "/" + std::to_string(device) + "/abort";
  if (::access(file.c_str(), W_OK) != 0)
    (void)::mount("fusectl", folder.c_str(), "fusectl", 0, nullptr);
  const unique_fd aborts(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  (void)!::write(aborts.get(), "1", 1);
}

/// True if the process has ended. Reads a file that the system gives at any time, which it does not
/// do with /proc/PID/stat while a process executes another program.
bool is_over(pid_t pid) {
  const std::string status = content_of_file("/proc/" + std::to_string(pid) + "/status");
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

unsigned device_of(const std::string& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? minor(s.st_dev) : 0;
}

/// Executes another program, which ends all threads that serve the mount, and then unmaps.
int execute_with_changes(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (map_changed(file, 'b') == nullptr) return 1;
  ::execl("/bin/true", "true", nullptr);
  return 2;
}

TEST_P(unmapping_targets, end_if_they_execute_another_program) {
  const pid_t target = sync(target_, ::getpid);
  const unsigned device = sync(target_, device_of, in("f"));
  const auto called = async(target_, execute_with_changes, in("f"));
  if (eventually([&] { return is_over(target); })) return;
  ADD_FAILURE() << "the target does not end";
  abort_mount(device);
}

} // namespace
} // namespace farcall::test::unmapping_test
