// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of locks: programs of a target, and programs at the host, exclude each other.
namespace farcall::test {
namespace {

class locks_of_mounted_files : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, locks_of_mounted_files, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

struct flock range(short type, off_t start, off_t bytes) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = bytes;
  return lock;
}

/// Sets a lock of a range in this process. Returns 0, or errno.
int set_range(int fd, short type, off_t start, off_t bytes, int command = F_SETLK) {
  struct flock lock = range(type, start, bytes);
  return ::fcntl(fd, command, &lock) == 0 ? 0 : errno;
}

/// Files that the target's calls have open between two calls.
int& kept() {
  static int fd = -1;
  return fd;
}

TEST_P(locks_of_mounted_files, exclude_programs_of_the_host) {
  write_file(in("f"), "content");
  const auto lock = +[](const std::string& path) {
    kept() = ::open(path.c_str(), O_RDWR);
    return set_range(kept(), F_WRLCK, 2, 3);
  };
  EXPECT_EQ(sync(target_, lock, in("f")), 0);
  const unique_fd here(::open(in("f").c_str(), O_RDWR));
  EXPECT_EQ(set_range(here.get(), F_RDLCK, 4, 1), EAGAIN);
  EXPECT_EQ(set_range(here.get(), F_WRLCK, 5, 10), 0) << "beside it";
  const auto meet = +[] { return set_range(kept(), F_WRLCK, 5, 1); };
  EXPECT_EQ(sync(target_, meet), EAGAIN);
  const auto test = +[] {
    struct flock found = range(F_WRLCK, 0, 0);
    return ::fcntl(kept(), F_GETLK, &found) == 0 && found.l_type == F_WRLCK && found.l_start == 5
               ? 0
               : 1;
  };
  EXPECT_EQ(sync(target_, test), 0);
  const auto close_another =
      +[](const std::string& path) { ::close(::open(path.c_str(), O_RDONLY)); };
  sync(target_, close_another, in("f"));
  EXPECT_EQ(set_range(here.get(), F_RDLCK, 4, 1), 0) << "a process loses its locks with any close";
}

TEST_P(locks_of_mounted_files, belong_to_processes) {
  write_file(in("f"), "content");
  const auto use = +[](const std::string& path) -> std::string {
    const unique_fd one(::open(path.c_str(), O_RDWR));
    const unique_fd two(::open(path.c_str(), O_RDWR));
    if (set_range(one.get(), F_WRLCK, 0, 0) != 0 || set_range(two.get(), F_WRLCK, 0, 1) != 0)
      return "two descriptors of one process exclude each other";
    const pid_t child = ::fork();
    if (child == 0) ::_exit(set_range(one.get(), F_WRLCK, 3, 1));
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != EAGAIN) return "a child has its parent's lock";
    if (set_range(two.get(), F_UNLCK, 0, 0) != 0) return "unlock";
    const pid_t other = ::fork();
    if (other == 0) ::_exit(set_range(one.get(), F_WRLCK, 3, 1));
    ::waitpid(other, &status, 0);
    return WEXITSTATUS(status) == 0 ? "" : "not unlocked";
  };
  EXPECT_EQ(sync(target_, use, in("f")), "");
}

/// Ends of a pipe to a child of the target.
std::array<unique_fd, 2>& to_child() {
  static std::array<unique_fd, 2> ends;
  return ends;
}

/// Gets a lock by a second open file, while a child keeps the first one, by which this process has
/// had a lock before. Returns 0, or errno.
int lock_again_beside_a_child(const std::string& path) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  to_child() = {unique_fd(ends[0]), unique_fd(ends[1])};
  unique_fd first(::open(path.c_str(), O_RDWR));
  if (const int why_not = set_range(first.get(), F_WRLCK, 0, 0); why_not != 0) return why_not;
  if (::fork() == 0) {
    to_child()[1].reset();
    char byte = 0;
    ::_exit(::read(to_child()[0].get(), &byte, 1) == 0 ? 0 : 1);
  }
  first.reset();
  kept() = ::open(path.c_str(), O_RDWR);
  return set_range(kept(), F_WRLCK, 0, 0);
}

TEST_P(locks_of_mounted_files, stay_if_another_open_file_ends_later) {
  write_file(in("f"), "content");
  const auto open_here = [&] {
    std::error_code ignored;
    std::ptrdiff_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      count += std::filesystem::read_symlink(each.path(), ignored) == in("f") ? 1 : 0;
    return count;
  };
  EXPECT_EQ(sync(target_, lock_again_beside_a_child, in("f")), 0);
  const std::ptrdiff_t before = open_here();
  sync(
      target_, +[] {
        to_child()[1].reset();
        ::wait(nullptr);
      });
  EXPECT_TRUE(eventually([&] { return open_here() < before; })) << "the child's file is closed";
  const unique_fd here(::open(in("f").c_str(), O_RDWR));
  EXPECT_EQ(set_range(here.get(), F_WRLCK, 0, 0, F_OFD_SETLK), EAGAIN);
}

TEST_P(locks_of_mounted_files, are_waited_for) {
  write_file(in("f"), "content");
  unique_fd here(::open(in("f").c_str(), O_RDWR));
  ASSERT_EQ(set_range(here.get(), F_WRLCK, 0, 0, F_OFD_SETLK), 0);
  const auto wait = +[](const std::string& path) {
    const unique_fd fd(::open(path.c_str(), O_RDWR));
    return set_range(fd.get(), F_WRLCK, 0, 0, F_SETLKW);
  };
  auto waiting = async(target_, wait, in("f"));
  // The target has asked at least once.
  EXPECT_FALSE(waiting.wait_for(std::chrono::milliseconds(100)));
  here.reset();
  EXPECT_EQ(waiting.get(), 0);
}

TEST_P(locks_of_mounted_files, exclude_whole_files_and_can_be_interrupted) {
  write_file(in("f"), "content");
  unique_fd here(::open(in("f").c_str(), O_RDWR));
  ASSERT_EQ(::flock(here.get(), LOCK_EX), 0);
  EXPECT_EQ(shell("flock -n $I/f true || echo held; timeout 0.2 flock $I/f true || echo $?"),
            "held\n124\n");
  here.reset();
  EXPECT_EQ(shell("flock $I/f sh -c 'flock -n $I/f true || echo held'; flock -n $I/f echo free"),
            "held\nfree\n");
}

TEST_P(locks_of_mounted_files, make_earlier_writes_visible) {
  write_file(in("f"), "old content");
  const auto read_locked = +[](const std::string& path) {
    if (kept() < 0) kept() = ::open(path.c_str(), O_RDWR);
    (void)set_range(kept(), F_WRLCK, 0, 0, F_SETLKW);
    char text[11] = {};
    const ssize_t got = ::pread(kept(), text, sizeof text, 0);
    (void)set_range(kept(), F_UNLCK, 0, 0);
    return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  };
  kept() = -1;
  sync(target_, +[] { kept() = -1; });
  EXPECT_EQ(sync(target_, read_locked, in("f")), "old content");
  const unique_fd here(::open(in("f").c_str(), O_RDWR));
  ASSERT_EQ(::pwrite(here.get(), "new", 3, 0), 3);
  EXPECT_EQ(sync(target_, read_locked, in("f")), "new content");
}

} // namespace
} // namespace farcall::test
