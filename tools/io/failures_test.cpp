// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include "tests/faults/support.hpp"

#include <farcall/base/version.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests full disks, and processes that are killed, while files of the host are written.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;

class files_of_targets_that_are_killed : public forwarding_job {};

INSTANTIATE_TEST_SUITE_P(over, files_of_targets_that_are_killed, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// ---- a library of another release ----

/// Returns the error of a job whose target preloads this library. The target may have joined before
/// it attaches the library, so the error is thrown by the start of the job or by the first call.
std::string failure_with(const char* library) {
  const scratch_tree tree;
  const scoped_variable preload("LD_PRELOAD", library);
  const scoped_variable forward("FARCALL_IO_FORWARD", "always");
  job_options options = with_targets("shm");
  options.host_files = tree / ".";
  return text_thrown_by<error>([&] {
    const job j(options);
    (void)sync(j.targets().front(), ::getpid);
  });
}

TEST(files_of_hosts, name_the_release_of_another_library) {
  const std::string in_target = "farcall " + release_text(this_release) + " in the target, ";
  EXPECT_THAT(failure_with(FARCALL_IO_OTHER),
              ::testing::HasSubstr(in_target + "farcall 0.2.0 in the library"));
  EXPECT_THAT(failure_with(FARCALL_IO_UNNAMED),
              ::testing::HasSubstr(in_target + "farcall of an unknown release in the library"));
}

// ---- a full disk ----

/// Mounts a file system of 1 MiB. Returns false, and prints a line, if this is not possible.
bool has_small_disk(const std::string& tree) {
  const bool is_mounted = ::unshare(CLONE_NEWNS) == 0 &&
                          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          ::mount("none", tree.c_str(), "tmpfs", 0, "size=1m") == 0;
  if (!is_mounted) say("no mount");
  return is_mounted;
}

/// Runs the host, and prints the target's results.
int host_with_a_small_disk() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  if (!has_small_disk(tree)) return 0;
  job_options options = with_targets("shm");
  options.host_files = tree;
  job j(options);
  const auto fill = +[](const std::string& in) {
    const std::vector<char> block(100'000, 'x');
    std::string seen;
    const int fd = ::open((in + "/a").c_str(), O_WRONLY | O_CREAT, 0644);
    int calls = 0;
    while (::write(fd, block.data(), block.size()) == 100'000 && calls < 100)
      ++calls;
    seen += calls >= 10 && calls < 100 ? "full " : "calls " + std::to_string(calls) + " ";
    seen += std::to_string(errno) + " ";
    // The error is reported once, and again for another write.
    seen += std::to_string(::close(fd)) + " ";
    const int other = ::open((in + "/b").c_str(), O_WRONLY | O_CREAT, 0644);
    const ssize_t written = ::write(other, block.data(), block.size());
    seen += written == 100'000 && ::close(other) != 0 && errno == ENOSPC ? "close" : "no error";
    return seen;
  };
  say(sync(j.targets().front(), fill, tree));
  return 0;
}
const role the_host_with_a_small_disk("host with a small disk", host_with_a_small_disk);

TEST(files_of_hosts, tell_of_a_full_disk) {
  const scratch_tree tree;
  const scoped_variable where("FARCALL_TEST_TREE", (tree / ".").c_str());
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  const scoped_variable forward("FARCALL_IO_FORWARD", "always");
  role_process host("host with a small disk");
  const std::string said = host.line();
  if (said == "no mount") GTEST_SKIP() << "this system lets nobody mount a file system";
  EXPECT_EQ(said, "full " + std::to_string(ENOSPC) + " 0 close");
}

/// Fills the disk in a child of a fork, makes space, and goes on behind what was written. Returns 0
/// if the file has every byte at its place.
int fill_and_go_on(const std::string& in) {
  const std::string ballast = in + "/ballast";
  const int other = ::open(ballast.c_str(), O_WRONLY | O_CREAT, 0644);
  std::vector<char> block(100'000, 'b');
  for (int i = 0; i < 5; ++i)
    (void)!::write(other, block.data(), block.size());
  ::close(other);
  const int fd = ::open((in + "/a").c_str(), O_RDWR | O_CREAT, 0644);
  constexpr std::size_t all = 900'000;
  bool was_full = false;
  for (std::size_t done = 0; done < all;) {
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<char>((done + i) % 251);
    const ssize_t n = ::write(fd, block.data(), block.size());
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n < 0 && (errno != ENOSPC || was_full)) return errno;
    if (n < 0) {
      was_full = true;
      if (::lseek(fd, 0, SEEK_CUR) != static_cast<off_t>(done)) return 1000;
      ::unlink(ballast.c_str());
    }
  }
  std::vector<char> back(all);
  if (!was_full || ::pread(fd, back.data(), all, 0) != static_cast<ssize_t>(all)) return 1001;
  for (std::size_t i = 0; i < all; ++i) {
    if (back[i] != static_cast<char>(i % 251)) return 1002;
  }
  return 0;
}

int host_of_a_child_with_a_small_disk() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  if (!has_small_disk(tree)) return 0;
  job_options options = with_targets("shm");
  options.host_files = tree;
  job j(options);
  const auto use = +[](const std::string& in) {
    std::vector<std::int64_t> seen = in_child(
        +[](const std::string& path) { return std::vector<std::int64_t>{fill_and_go_on(path)}; },
        in);
    // Writes to stdout, fails, and tells so by a stream that it has closed.
    const std::string sorts = "seq 50000 | sort -o " + in + "/sorted 2> /dev/null";
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a program is what is tested
    seen.push_back(WEXITSTATUS(std::system(sorts.c_str())));
    return seen;
  };
  for (const std::int64_t each : sync(j.targets().front(), use, tree))
    say("result " + std::to_string(each));
  return 0;
}
const role the_host_of_a_child("host of a child with a small disk",
                               host_of_a_child_with_a_small_disk);

TEST(files_of_hosts, have_what_children_wrote_before_the_disk_was_full) {
  const scratch_tree tree;
  const scoped_variable where("FARCALL_TEST_TREE", (tree / ".").c_str());
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  const scoped_variable forward("FARCALL_IO_FORWARD", "always");
  role_process host("host of a child with a small disk");
  const std::string said = host.line();
  if (said == "no mount") GTEST_SKIP() << "this system lets nobody mount a file system";
  EXPECT_EQ(said, "result 0");
  EXPECT_EQ(host.line(), "result 2") << "the status of sort";
}

// ---- a file system without fallocate() ----

int host_without_fallocate() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", tree.c_str(), "ramfs", 0, nullptr) != 0) {
    say("no mount");
    return 0;
  }
  job_options options = with_targets("shm");
  options.host_files = tree;
  job j(options);
  const auto allocate = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    (void)!::pwrite(fd, "text", 4, 4096);
    std::string seen = std::to_string(::posix_fallocate(fd, 10, 10'000)) + " ";
    char text[5]{};
    (void)!::pread(fd, text, 4, 4096);
    seen += text;
    seen += " " + std::to_string(::lseek(fd, 0, SEEK_END)) + " ";
    seen += std::to_string(::posix_fallocate(fd, 0, 10)) + " ";
    const int read_only = ::open(path.c_str(), O_RDONLY);
    return seen + std::to_string(::posix_fallocate(read_only, 0, 10)) + " " +
           std::to_string(::posix_fallocate(fd, -1, 10));
  };
  say(sync(j.targets().front(), allocate, tree + "/a"));
  return 0;
}
const role the_host_without_fallocate("host without fallocate", host_without_fallocate);

TEST(files_of_hosts, are_allocated_by_writing_where_the_host_cannot) {
  const scratch_tree tree;
  const scoped_variable where("FARCALL_TEST_TREE",
                              fs::path(tree / ".").parent_path().string().c_str());
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  const scoped_variable forward("FARCALL_IO_FORWARD", "always");
  role_process host("host without fallocate");
  const std::string said = host.line();
  if (said == "no mount") GTEST_SKIP() << "this system lets nobody mount a file system";
  EXPECT_EQ(said, "0 text 10010 0 " + std::to_string(EBADF) + " " + std::to_string(EINVAL));
}

// ---- a target that is killed while it writes ----

TEST_P(files_of_targets_that_are_killed, keep_writes_that_were_synced) {
  constexpr std::size_t block = 50'000;
  const auto write_durably = +[](const std::string& path, std::size_t at) {
    const std::vector<char> bytes(block, static_cast<char>('a' + at));
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
    const bool is_good = ::pwrite(fd, bytes.data(), block, static_cast<off_t>(at * block)) ==
                             static_cast<ssize_t>(block) &&
                         ::fsync(fd) == 0;
    // Open to the end, with further writes under way.
    (void)::pwrite(fd, bytes.data(), block, static_cast<off_t>((at + 20) * block));
    return is_good;
  };
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(sync(target_, write_durably, tree_ / "in/a", i));
  const auto write_on = +[](const std::string& path) {
    const std::vector<char> much(std::size_t{4} << 20, 'x');
    const int fd = ::open(path.c_str(), O_WRONLY);
    while (::pwrite(fd, much.data(), much.size(), 50 * block) > 0) {
    }
  };
  const int pid = sync(target_, ::getpid);
  const auto busy = async(target_, write_on, tree_ / "in/a");
  EXPECT_TRUE(eventually([&] { return fs::file_size(tree_ / "in/a") > 50 * block; }));
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return job_->live_targets().empty(); }));
  const std::string all = content_of_file(tree_ / "in/a");
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(all.substr(i * block, block) == std::string(block, static_cast<char>('a' + i)));
}

// ---- a host that is killed while its target writes ----

int host_to_be_killed() {
  const char* const tree = std::getenv("FARCALL_TEST_TREE");
  job_options options = with_targets("shm");
  options.host_files = tree;
  job j(options);
  const auto write_on = +[](const std::string& path) {
    say(std::to_string(::getpid()));
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
    const std::vector<char> much(std::size_t{8} << 20, 'x');
    while (::pwrite(fd, much.data(), much.size(), 0) > 0) {
    }
    say("error " + std::to_string(errno));
  };
  sync(j.targets().front(), write_on, tree + std::string("/a"));
  return 0;
}
const role the_host("host to be killed", host_to_be_killed);

TEST(files_of_hosts, end_targets_whose_host_is_killed) {
  const scratch_tree tree;
  const scoped_variable where("FARCALL_TEST_TREE", (tree / ".").c_str());
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  const scoped_variable forward("FARCALL_IO_FORWARD", "always");
  const subreaper reaper;
  role_process host("host to be killed");
  const std::vector<pid_t> target = pids_in(host.line());
  ASSERT_EQ(target.size(), 1U);
  EXPECT_TRUE(eventually([&] { return fs::exists(tree / "a") && fs::file_size(tree / "a") > 0; }));
  host.kill(SIGKILL);
  EXPECT_TRUE(all_end_within(target, std::chrono::seconds(10)));
  EXPECT_THAT(host.line(), ::testing::AnyOf("", "error " + std::to_string(EIO)));
}

} // namespace
} // namespace farcall::test
