// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <tests/send_descriptors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// The header declares C functions, but does not say so in C++.
extern "C" {
#include <sys/pidfd.h>
}

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

/// Puts a file of the target at a number. Returns 0 if a write to the number reaches that file, or
/// if another thread, such as one that accepts connections, has taken the number.
std::int64_t reuse(int number, int local) {
  const int fd = ::fcntl(local, F_DUPFD, number);
  struct stat s{};
  (void)::ftruncate(local, 0);
  const bool is_written =
      ::pwrite(fd, "secret", 6, 0) == 6 && ::fstat(local, &s) == 0 && s.st_size == 6;
  ::close(fd);
  return is_written || fd != number ? 0 : 1;
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

TEST_P(descriptors, are_controlled_as_local_ones) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    open_as(300, path);
    int on = 1;
    volatile std::uintptr_t address = 64;
    std::vector<std::int64_t> seen{::ioctl(300, FIOCLEX), ::fcntl(300, F_GETFD) - FD_CLOEXEC,
                                   ::ioctl(300, FIONCLEX), ::fcntl(300, F_GETFD),
                                   ::ioctl(300, FIONBIO, &on)};
    seen.push_back((::fcntl(300, F_GETFL) & O_NONBLOCK) != 0 ? 0 : 1);
    on = 0;
    seen.push_back(::ioctl(300, FIONBIO, &on));
    seen.push_back(::fcntl(300, F_GETFL) & O_NONBLOCK);
    seen.push_back(error_of(::ioctl(300, FIONBIO, reinterpret_cast<int*>(address))) - EFAULT);
    // An invalid call closes nothing.
    seen.push_back(error_of(::close_range(300, 300, 0x80)) - EINVAL);
    seen.push_back(error_of(::close_range(301, 300, 0)) - EINVAL);
    char byte = 0;
    seen.push_back(::pread(300, &byte, 1, 0) - 1);
    ::close(300);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), Each(0));
}

/// Counts the library's descriptors, which have high numbers.
std::int64_t count_high_sockets() {
  std::int64_t count = 0;
  for (int fd = 700; fd < 1000; ++fd)
    count += is_forwarded(fd) ? 1 : 0;
  return count;
}

TEST_P(descriptors, are_not_kept_by_children) {
  const auto use = +[]() -> std::int64_t {
    const int fd = ::open("/dev/zero", O_RDONLY);
    std::vector<char> bytes(std::size_t{64} << 20, 'x');
    const std::atomic_ref<char> first(bytes.front());
    std::thread reader([&] { (void)!::read(fd, bytes.data(), bytes.size()); });
    while (first.load() == 'x')
      std::this_thread::yield();
    // The read goes on, and so does a copy of the descriptor.
    ::close(fd);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(count_high_sockets()));
    int status = -1;
    (void)::waitpid(child, &status, 0);
    reader.join();
    return status;
  };
  EXPECT_EQ(sync(target_, use), 0);
}

/// Makes a child without the handlers of pthread_atfork(), as sandboxes do.
pid_t clone_process(bool by_clone) {
  return by_clone ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0))
                  : ::_Fork();
}

TEST_P(descriptors, are_used_by_children_without_handlers_of_forks) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    std::vector<int> seen;
    const int fd = ::open(path.c_str(), O_RDONLY);
    const auto check = [&] {
      char byte = 0;
      const int own = ::open(path.c_str(), O_RDONLY);
      return ::pread(fd, &byte, 1, 1) == 1 && byte == 'b' && ::pread(own, &byte, 1, 2) == 1 &&
             byte == 'c' && ::close(own) == 0;
    };
    // In the target, and in a child of it that has a connection.
    for (int level = 0; level < 2; ++level) {
      for (const bool by_clone : {false, true}) {
        const pid_t child = clone_process(by_clone);
        if (child == 0) {
          ::alarm(20);
          const bool is_connected = check();
          const pid_t inner = level == 0 ? 0 : clone_process(by_clone);
          if (level == 1 && inner == 0) ::_exit(check() ? 0 : 1);
          int status = 0;
          if (level == 1 && (::waitpid(inner, &status, 0) != inner || status != 0)) ::_exit(2);
          ::_exit(is_connected && check() ? 0 : 3);
        }
        int status = -1;
        (void)::waitpid(child, &status, 0);
        seen.push_back(status);
      }
    }
    seen.push_back(check() ? 0 : 1);
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), Each(0));
}

/// Sends a descriptor to a socket.
bool send_descriptor(int socket, int fd) {
  const std::byte byte{'x'};
  return send_descriptors(socket, {&byte, 1}, {{fd}}) == 1;
}

/// Receives a descriptor from a socket, by recvmsg() or recvmmsg().
int receive_descriptor(int socket, bool by_recvmmsg) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  mmsghdr message{};
  message.msg_hdr.msg_iov = &part;
  message.msg_hdr.msg_iovlen = 1;
  message.msg_hdr.msg_control = control.data();
  message.msg_hdr.msg_controllen = control.size();
  const bool is_received = by_recvmmsg ? ::recvmmsg(socket, &message, 1, 0, nullptr) == 1
                                       : ::recvmsg(socket, &message.msg_hdr, MSG_CMSG_CLOEXEC) == 1;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message.msg_hdr);
  int fd = -1;
  if (is_received && rights != nullptr) std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return fd;
}

std::vector<std::int64_t> receive_files(const std::string& in) {
  std::array<int, 2> sockets{};
  std::array<char, 3> bytes{};
  struct stat s{};
  std::vector<std::int64_t> seen{::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data())};
  const int fd = ::open((in + "/a").c_str(), O_RDWR);
  const int folder = ::open(in.c_str(), O_RDONLY | O_DIRECTORY);
  for (const int each : {fd, folder})
    seen.push_back(send_descriptor(sockets[0], each) ? 0 : 1);
  const int file = receive_descriptor(sockets[1], false);
  const int other = receive_descriptor(sockets[1], true);
  seen.push_back(::fcntl(file, F_GETFD) == FD_CLOEXEC ? 0 : 1);
  seen.push_back(::read(fd, bytes.data(), 1) == 1 && ::read(file, bytes.data(), 3) == 2 ? 0 : 1);
  seen.push_back(::close(fd));
  seen.push_back(::pwrite(file, "X", 1, 0) == 1 ? 0 : 1);
  seen.push_back(::fstatat(other, "a", &s, 0));
  const int self = ::pidfd_open(::getpid(), 0);
  const int got = ::pidfd_getfd(self, file, 0);
  seen.push_back(::pread(got, bytes.data(), 1, 0) == 1 && bytes[0] == 'X' ? 0 : 1);
  for (const int each : {folder, file, other, self, got, sockets[0], sockets[1]})
    seen.push_back(::close(each));
  return seen;
}

TEST_P(descriptors, are_received_from_other_programs) {
  write_file(at_host("a"), "abc");
  EXPECT_THAT(sync(target_, &receive_files, in_), Each(0));
  EXPECT_EQ(content_of_file(at_host("a")), "Xbc");
  const auto as_client = +[](const std::string& in) { return in_child(receive_files, in); };
  EXPECT_THAT(sync(target_, as_client, in_), Each(0));
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
