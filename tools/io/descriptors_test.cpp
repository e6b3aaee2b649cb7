#include "io_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of ways by which descriptors of host files are closed, copied and received.
namespace farcall::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class descriptors : public hidden_files_job {};

INSTANTIATE_TEST_SUITE_P(over, descriptors, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

/// Opens a host file as the given number.
void open_as(int number, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
  if (fd == number) return;
  ::dup2(fd, number);
  ::close(fd);
}

/// Puts a file of the target at a number, which must be free. Returns 0 if a write to the number
/// reaches that file.
std::int64_t reuse(int number, int local) {
  const int fd = ::fcntl(local, F_DUPFD, number);
  struct stat s{};
  (void)::ftruncate(local, 0);
  const bool is_written = fd == number && ::pwrite(fd, "secret", 6, 0) == 6 &&
                          ::fstat(local, &s) == 0 && s.st_size == 6;
  ::close(fd);
  return is_written ? 0 : 1;
}

std::vector<std::int64_t> close_in_each_way(const std::string& in) {
  const std::string path = in + "/a";
  std::vector<std::int64_t> seen;
  const int local = ::memfd_create("local", 0);
  std::FILE* const log = std::fopen("/dev/null", "a");
  int number = ::fileno(log);
  open_as(number, path);
  std::fputs("last", log);
  seen.push_back(std::fclose(log));
  seen.push_back(reuse(number, local));

  std::FILE* const pipe = ::popen("true", "r");
  number = ::fileno(pipe);
  open_as(number, path);
  seen.push_back(::pclose(pipe));
  seen.push_back(reuse(number, local));

  DIR* const folder = ::opendir("/");
  number = ::dirfd(folder);
  open_as(number, path);
  seen.push_back(::closedir(folder));
  seen.push_back(reuse(number, local));

  number = 300;
  open_as(number, path);
  seen.push_back(::syscall(SYS_close_range, number, number, 0));
  seen.push_back(reuse(number, local));

  open_as(number, path);
  rlimit before{};
  (void)::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit less{100, before.rlim_max};
  (void)::setrlimit(RLIMIT_NOFILE, &less);
  seen.push_back(::close_range(static_cast<unsigned>(number), ~0U, 0));
  (void)::setrlimit(RLIMIT_NOFILE, &before);
  seen.push_back(reuse(number, local));
  ::close(local);
  return seen;
}

TEST_P(descriptors, are_forgotten_when_libc_closes_them) {
  EXPECT_THAT(sync(target_, &close_in_each_way, in_), Each(0));
  EXPECT_EQ(content_of_file(at_host("a")), "last");
  const auto as_client = +[](const std::string& in) { return in_child(close_in_each_way, in); };
  EXPECT_THAT(sync(target_, as_client, in_), Each(0));
  EXPECT_EQ(content_of_file(at_host("a")), "last");
}

TEST_P(descriptors, are_copied_by_number) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    char byte = 0;
    open_as(300, path);
    const auto copy = static_cast<int>(::syscall(SYS_dup, 300));
    const auto higher = static_cast<int>(::syscall(SYS_fcntl, 300, F_DUPFD, 400));
    std::vector<std::int64_t> seen{::read(copy, &byte, 1), ::read(higher, &byte, 1), byte};
    // A file of the target replaces the host's.
    const int local = ::open("/dev/null", O_RDWR);
    seen.push_back(::syscall(SYS_dup3, local, 300, 0));
    seen.push_back(::read(300, &byte, 1));
    seen.push_back(::syscall(SYS_dup3, copy, local, 0) == local ? ::read(local, &byte, 1) : -1);
    seen.push_back(byte);
    for (const int each : {300, copy, higher, local})
      ::close(each);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), ElementsAre(1, 1, 'b', 300, 0, 1, 'c'));
}

bool is_file(int fd) {
  struct stat s{};
  return ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
}

std::vector<std::int64_t> become_daemon(const std::string& in) {
  std::array<char, PATH_MAX> name{};
  (void)::chdir(in.c_str());
  open_as(STDOUT_FILENO, in + "/a");
  std::vector<std::int64_t> seen{::daemon(0, 0), ::write(STDOUT_FILENO, "x", 1)};
  const bool is_at_root = ::getcwd(name.data(), name.size()) != nullptr;
  seen.push_back(is_at_root && std::string(name.data()) == "/" ? 0 : 1);
  return seen;
}

TEST_P(descriptors, are_replaced_by_hidden_calls) {
  const auto on_terminal = +[](const std::string& path) {
    open_as(300, path);
    int terminal = -1;
    const int before = ::dup(STDIN_FILENO);
    ::dup2(300, STDIN_FILENO);
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) ::_exit(::isatty(STDIN_FILENO) == 1 && !is_file(STDIN_FILENO) ? 0 : 1);
    int status = -1;
    (void)::waitpid(child, &status, 0);
    ::dup2(before, STDIN_FILENO);
    for (const int each : {before, terminal, 300})
      ::close(each);
    return status;
  };
  EXPECT_EQ(sync(target_, on_terminal, in_ + "/a"), 0);
  const auto as_client = +[](const std::string& in) { return in_child(become_daemon, in); };
  EXPECT_THAT(sync(target_, as_client, in_), ElementsAre(0, 1, 0));
  EXPECT_EQ(content_of_file(at_host("a")), "");
}

} // namespace
} // namespace farcall::test
