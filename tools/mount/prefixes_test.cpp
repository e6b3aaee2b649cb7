// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of mounts with other prefixes and settings than mount_test.cpp has, and of forks.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string name_of_route(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

// ---- nested prefixes ----

class nested_mounts : public mounting_job {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    write_file(in("outer"), "outer\n");
    write_file(in("deep/below/inner"), "inner\n");
    write_file(in("single"), "single\n");
    // The order of the list does not matter.
    start((tree_ / "in/deep/below,") + (tree_ / "in:ro,") + (tree_ / "in/single:rw"));
  }
};

INSTANTIATE_TEST_SUITE_P(over, nested_mounts, ::testing::Values("shm", "tcp"), name_of_route);

TEST_P(nested_mounts, have_the_rights_of_the_innermost_prefix) {
  EXPECT_EQ(
      shell("grep -c fuse.farcall /proc/self/mounts; cd $I; cat outer deep/below/inner single\n"
            "echo new > deep/below/new; echo changed > single; cat single"),
      "3\nouter\ninner\nsingle\nchanged\n");
  EXPECT_EQ(content_of_file(in("deep/below/new")), "new\n");
  EXPECT_EQ(content_of_file(in("single")), "changed\n");
  for (const char* const change : {"echo x > $I/outer", "echo x > $I/new", "echo x > $I/deep/new",
                                   "mkdir $I/deep/folder", "rm $I/outer"}) {
    EXPECT_THAT(shell(change + std::string(" 2>&1 || true")), HasSubstr("Read-only file system"))
        << change;
  }
  EXPECT_EQ(content_of_file(in("outer")), "outer\n");
}

TEST_P(nested_mounts, are_reached_by_relative_paths_and_links) {
  fs::create_symlink("deep/below/inner", in("link"));
  EXPECT_EQ(shell("cd $I/deep/below; cat ../../outer ../below/inner ../../link; ls ..; ls $I"),
            "outer\ninner\ninner\nbelow\ndeep\nlink\nouter\nsingle\n");
  EXPECT_EQ(shell("find $I -type f | wc -l"), "3\n");
}

TEST_P(nested_mounts, are_other_file_systems) {
  EXPECT_THAT(shell("mv $I/deep/below $I/other 2>&1 || true"), HasSubstr("Read-only file system"));
  const auto link_error = +[](const std::string& from, const std::string& to) {
    return ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  };
  EXPECT_EQ(sync(target_, link_error, in("outer"), in("deep/below/link")), EXDEV);
}

// ---- strict caching ----

class strict_mounts : public mounting_job {
 protected:
  void SetUp() override {
    const scoped_variable strict("FARCALL_HOST_FILES_CACHE", "strict");
    mounting_job::SetUp();
  }
};

INSTANTIATE_TEST_SUITE_P(over, strict_mounts, ::testing::Values("shm", "tcp"), name_of_route);

TEST_P(strict_mounts, show_names_and_attributes_of_the_host_at_once) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(shell("test -e $I/f || echo none"), "none\n");
    write_file(in("f"), std::string(static_cast<std::size_t>(i), 'x'));
    EXPECT_EQ(shell("stat -c '%s %a' $I/f"), std::to_string(i) + " 644\n");
    fs::permissions(in("f"), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(shell("stat -c %a $I/f; ls $I"), "600\nf\n");
    fs::rename(in("f"), in("g"));
    EXPECT_EQ(shell("ls $I; test -e $I/f || echo none"), "g\nnone\n");
    fs::remove(in("g"));
    EXPECT_EQ(shell("ls $I"), "");
  }
}

/// Opens a file in the target, where it stays open.
int open_there(const std::string& path) { return ::open(path.c_str(), O_RDWR | O_CREAT, 0644); }

/// Returns the contents of a file that open_there() has opened.
std::string read_there(int fd) {
  std::array<char, 10'000> bytes{};
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
  return got < 0 ? "error" : std::string(bytes.data(), static_cast<std::size_t>(got));
}

TEST_P(strict_mounts, show_new_contents_in_open_files) {
  write_file(in("f"), "");
  const int fd = sync(target_, fn<&open_there>, in("f"));
  for (std::size_t size = 1; size < 9'000; size += 811) {
    const std::string content(size, static_cast<char>('a' + size % 26));
    write_file(in("f"), content);
    EXPECT_EQ(sync(target_, fn<&read_there>, fd), content);
    EXPECT_EQ(shell("cat $I/f"), content);
  }
}

TEST_P(strict_mounts, have_what_the_target_has_written) {
  const int fd = sync(target_, fn<&open_there>, in("f"));
  const auto write = +[](int to, const std::string& text) {
    return ::pwrite(to, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
           ::fsync(to) == 0;
  };
  std::string content;
  for (int i = 0; i < 20; ++i) {
    content += std::to_string(i) + "\n";
    EXPECT_TRUE(sync(target_, write, fd, content));
    EXPECT_EQ(sync(target_, fn<&read_there>, fd), content);
    EXPECT_EQ(content_of_file(in("f")), content);
  }
  EXPECT_EQ(shell("echo more >> $I/f; tail -n 1 $I/f; wc -l < $I/f"), "more\n21\n");
}

// ---- long lists ----

class long_lists_of_mounts : public mounting_job {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    // As many bytes as a list may have.
    constexpr std::size_t most = 4000;
    const std::size_t constant = (tree_ / "00:ro,").size();
    std::string list;
    while (list.size() + constant < most) {
      const std::size_t longer = std::min<std::size_t>(200, most - list.size() - constant);
      std::string name = std::to_string(10 + count_++) + std::string(longer, 'n');
      write_file(tree_ / (name + "/file"), "text\n");
      list += (tree_ / name) + ":ro,";
    }
    list.pop_back();
    ASSERT_GE(list.size(), most - 1);
    start(list);
  }

  int count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(over, long_lists_of_mounts, ::testing::Values("shm", "tcp"),
                         name_of_route);

TEST_P(long_lists_of_mounts, are_mounted) {
  const std::string count = std::to_string(count_) + "\n";
  EXPECT_EQ(shell("grep -c fuse.farcall /proc/self/mounts; cat $T/*/file | wc -l"), count + count);
}

// ---- forks ----

class forks_of_mounted_files : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, forks_of_mounted_files, ::testing::Values("shm", "tcp"),
                         name_of_route);

/// Works on files below a folder. Returns an empty text, or what has failed.
std::string work_in(const std::string& folder) {
  const std::string file = folder + "/own" + std::to_string(::getpid());
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
  if (fd < 0) return "open";
  const std::string text(100'000, 'w');
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return "write";
  if (::close(fd) != 0) return "close";
  if (content_of_file(file) != text) return "read";
  if (::rename(file.c_str(), (file + "-done").c_str()) != 0) return "rename";
  return "";
}

TEST_P(forks_of_mounted_files, work_at_the_same_time_as_the_target) {
  const auto use = +[](const std::string& folder) -> std::string {
    constexpr int children = 4;
    std::array<pid_t, children> all{};
    for (pid_t& child : all) {
      child = ::fork();
      if (child == 0) ::_exit(work_in(folder).empty() ? 0 : 1);
    }
    std::string failed = work_in(folder);
    for (const pid_t child : all) {
      int status = -1;
      if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) failed += " child";
    }
    return failed;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in"), "");
  EXPECT_EQ(shell("ls $I | wc -l; ls $I | grep -c done"), "5\n5\n");
}

TEST_P(forks_of_mounted_files, share_open_files_with_the_target) {
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ::write(fd, "target ", 7) != 7) return "write";
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::write(fd, "child ", 6) == 6 && ::close(fd) == 0 ? 0 : 1);
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) return "child";
    // The position is common.
    if (::write(fd, "target", 6) != 6 || ::close(fd) != 0) return "second write";
    return content_of_file(path);
  };
  EXPECT_EQ(sync(target_, use, in("shared")), "target child target");
  EXPECT_EQ(content_of_file(in("shared")), "target child target");
}

/// Opens and reads a file; returns the error, or 0.
int error_of_reading(const std::string& file) {
  const unique_fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  return fd && ::read(fd.get(), &byte, 1) == 1 ? 0 : errno;
}

[[noreturn]] void report_and_exit(int error, const std::string& report) {
  const int to = ::open(report.c_str(), O_WRONLY);
  const std::string text = std::to_string(error);
  (void)!::write(to, text.data(), text.size());
  ::_exit(0);
}

/// Forks a child that reads a file until it gets an error, and reports the error by a named pipe.
/// Returns the child's process number.
pid_t fork_reader(const std::string& file, const std::string& report) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setsid();
  int error = 0;
  while ((error = error_of_reading(file)) == 0)
    ::usleep(10'000);
  report_and_exit(error, report);
}

/// Like fork_reader(), but the child reads the file once, some time after the end of the target.
pid_t fork_late_reader(const std::string& file, const std::string& report) {
  const pid_t target = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setsid();
  while (::kill(target, 0) == 0)
    ::usleep(10'000);
  ::usleep(300'000);
  report_and_exit(error_of_reading(file), report);
}

/// Ends the target while its child reads, and checks the error that the child reports.
class orphans_of_mounted_files : public mounting_job {
 protected:
  void SetUp() override {
    mounting_job::SetUp();
    if (IsSkipped()) return;
    write_file(in("f"), "text");
    ASSERT_EQ(::mkfifo((outside_ / "report").c_str(), 0600), 0);
    report_ = unique_fd(::open((outside_ / "report").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }

  void expect_an_error_at(pid_t child) {
    ASSERT_GT(child, 0);
    // The target's own work goes on beside the child.
    EXPECT_EQ(shell("cat $I/f"), "text");
    job_.reset();
    server_.reset();
    std::array<char, 16> said{};
    EXPECT_TRUE(eventually([&] { return ::read(report_.get(), said.data(), said.size()) > 0; }))
        << "the child hangs, or still reads";
    EXPECT_THAT(std::string(said.data()),
                ::testing::AnyOf(std::to_string(EIO), std::to_string(ENOTCONN),
                                 std::to_string(ECONNABORTED)));
    ::kill(child, SIGKILL);
  }

  [[nodiscard]] std::string report() const { return outside_ / "report"; }

 private:
  scratch_tree outside_;
  unique_fd report_;
};

INSTANTIATE_TEST_SUITE_P(over, orphans_of_mounted_files, ::testing::Values("shm", "tcp"),
                         name_of_route);

TEST_P(orphans_of_mounted_files, get_errors_after_the_end_of_the_target) {
  expect_an_error_at(sync(target_, fn<&fork_reader>, in("f"), report()));
}

// The machine of the target may have a file at the same path, as in this test.
TEST_P(orphans_of_mounted_files, do_not_reach_files_of_their_machine) {
  expect_an_error_at(sync(target_, fn<&fork_late_reader>, in("f"), report()));
}

} // namespace
} // namespace farcall::test
