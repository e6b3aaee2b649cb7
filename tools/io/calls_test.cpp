// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

/// Tests of functions for which libc has no replaceable call, or which are refused for host files.
namespace farcall::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class calls : public hidden_files_job {};

INSTANTIATE_TEST_SUITE_P(over, calls, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

extern "C" int __dprintf_chk(int fd, int flag, const char* format, ...); // NOLINT

TEST_P(calls, print_to_descriptors) {
  const auto use = +[](const std::string& in) {
    const int fd = ::open((in + "/a").c_str(), O_RDWR | O_CREAT, 0644);
    const int written = ::dprintf(fd, "number %d\n", 5);
    const int checked = __dprintf_chk(fd, 1, "%s\n", "checked");
    const std::vector<std::int64_t> seen{written, checked, ::close(fd)};
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ElementsAre(9, 8, 0));
  EXPECT_EQ(content_of_file(at_host("a")), "number 5\nchecked\n");
}

TEST_P(calls, are_refused_with_documented_errors) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& in) {
    const std::string path = in + "/a";
    const int fd = ::open(path.c_str(), O_RDWR);
    const int poll = ::epoll_create1(0);
    const int watch = ::inotify_init1(0);
    epoll_event event{};
    std::array<char, 200> bytes{};
    socklen_t length = 0;
    aiocb request{};
    request.aio_fildes = fd;
    request.aio_buf = bytes.data();
    request.aio_nbytes = 1;
    std::string name = path;
    std::array<char*, 2> names{name.data(), nullptr};
    errno = 0;
    std::vector<int> seen{
        error_of(::lockf(fd, F_TLOCK, 0)),
        error_of(::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event)),
        error_of(::inotify_add_watch(watch, path.c_str(), IN_MODIFY)),
        error_of(::name_to_handle_at(AT_FDCWD, path.c_str(), nullptr, nullptr, 0)),
        error_of(::tee(fd, poll, 1, 0)),
        error_of(::aio_read(&request)),
        error_of(::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT)),
        error_of(::shutdown(fd, SHUT_RDWR)),
        error_of(::getsockname(fd, nullptr, &length)),
        ::fts_open(names.data(), FTS_PHYSICAL, nullptr) == nullptr ? errno : 0,
        // The file is still usable.
        error_of(::read(fd, bytes.data(), bytes.size())),
    };
    for (const int each : {fd, poll, watch})
      ::close(each);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_),
              ElementsAre(ENOLCK, EPERM, EOPNOTSUPP, EOPNOTSUPP, EINVAL, ENOSYS, ENOTSOCK, ENOTSOCK,
                          ENOTSOCK, EOPNOTSUPP, 0));
}

// Names that old programs call, and that no header declares.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" std::FILE* _IO_fopen(const char* path, const char* mode);
extern "C" std::FILE* _IO_fdopen(int fd, const char* mode);
extern "C" int _IO_fclose(std::FILE* file);
extern "C" int _IO_fprintf(std::FILE* file, const char* format, ...);
extern "C" int _IO_fputs(const char* text, std::FILE* file);
extern "C" int _IO_getc(std::FILE* file);
extern "C" int _IO_putc(int c, std::FILE* file);
extern "C" std::FILE* _IO_file_open(std::FILE* file, const char* path, int flags, int mode,
                                    int rights, int is_32);
extern "C" std::FILE* _IO_file_fopen(std::FILE* file, const char* path, const char* mode,
                                     int is_32);
extern "C" std::FILE* _IO_file_attach(std::FILE* file, int fd);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

TEST_P(calls, have_the_names_of_old_programs) {
  const auto use = +[](const std::string& in) {
    const std::string path = in + "/a";
    std::FILE* const made = _IO_fopen(path.c_str(), "w");
    std::vector<int> seen{made != nullptr};
    seen.push_back(_IO_fprintf(made, "number %d\n", 5));
    (void)_IO_putc('x', made);
    (void)_IO_fputs("yz", made);
    seen.push_back(_IO_fclose(made));
    std::FILE* const again = _IO_fdopen(::open(path.c_str(), O_RDONLY), "r");
    seen.push_back(_IO_getc(again));
    (void)_IO_fclose(again);
    // A stream of libc cannot be opened again as a file of the host.
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::FILE* const libcs = std::tmpfile();
    for (std::FILE* const opened :
         {_IO_file_open(libcs, path.c_str(), O_RDONLY, 0, 0, 0),
          _IO_file_fopen(libcs, path.c_str(), "r", 0), _IO_file_attach(libcs, fd)})
      seen.push_back(opened == nullptr ? errno : 0);
    (void)std::fclose(libcs);
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_),
              ElementsAre(1, 9, 0, 'n', EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP));
  EXPECT_EQ(content_of_file(at_host("a")), "number 5\nxyz");
}

TEST_P(calls, sync_ranges_and_file_systems) {
  const auto use = +[](const std::string& in) {
    const int fd = ::open((in + "/a").c_str(), O_RDWR | O_CREAT, 0644);
    std::vector<int> seen{
        error_of(::write(fd, "abc", 3)),
        error_of(::sync_file_range(fd, 0, 3, SYNC_FILE_RANGE_WRITE)),
        error_of(::sync_file_range(fd, 0, 3, SYNC_FILE_RANGE_WAIT_AFTER)),
        error_of(::sync_file_range(fd, -1, 3, 0)),
        error_of(::syncfs(fd)),
        error_of(::readahead(fd, 0, 3)),
    };
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ElementsAre(0, 0, 0, EINVAL, 0, 0));
}

TEST_P(calls, list_folders_in_each_way) {
  for (const char* name : {"folder/a", "folder/b", "folder/c"})
    write_file(at_host(name), "");
  const auto by_readdir_r = +[](const std::string& in) {
    std::vector<std::string> seen;
    DIR* const folder = ::opendir((in + "/folder").c_str());
    if (const dirent* const first = ::readdir(folder)) seen.emplace_back(first->d_name);
    dirent entry{};
    dirent* found = nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    while (::readdir_r(folder, &entry, &found) == 0 && found != nullptr)
      seen.emplace_back(entry.d_name);
#pragma GCC diagnostic pop
    ::closedir(folder);
    return seen;
  };
  EXPECT_THAT(sync(target_, by_readdir_r, in_), UnorderedElementsAre(".", "..", "a", "b", "c"));
  const auto by_scandirat = +[](const std::string& in) {
    std::vector<std::string> seen;
    const int fd = ::open(in.c_str(), O_RDONLY | O_DIRECTORY);
    dirent** all = nullptr;
    const int count = ::scandirat(fd, "folder", &all, nullptr, ::alphasort);
    for (int i = 0; i < count; ++i) {
      seen.emplace_back(all[i]->d_name);
      std::free(all[i]);
    }
    std::free(all);
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, by_scandirat, in_), ElementsAre(".", "..", "a", "b", "c"));
  const auto by_getdents = +[](const std::string& in) {
    std::vector<std::string> seen;
    const int fd = ::open((in + "/folder").c_str(), O_RDONLY | O_DIRECTORY);
    alignas(dirent64) std::array<char, 4096> bytes{};
    ssize_t got = 0;
    while ((got = ::getdents64(fd, bytes.data(), bytes.size())) > 0) {
      for (ssize_t at = 0; at < got;) {
        const auto* const entry = reinterpret_cast<const dirent64*>(bytes.data() + at);
        seen.emplace_back(entry->d_name);
        at += entry->d_reclen;
      }
    }
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, by_getdents, in_), UnorderedElementsAre(".", "..", "a", "b", "c"));
}

/// Passes addresses at which there is no memory, or no memory that can be written to.
std::vector<std::int64_t> pass_bad_memory(const std::string& in) {
  // By pointers, because the functions are declared to take no null.
  const auto change_mode = &::fchmodat;
  const auto change_owner = &::fchownat;
  const std::string path = in + "/a";
  volatile std::uintptr_t address = 64;
  auto* const nowhere = reinterpret_cast<char*>(address);
  const char* volatile none = nullptr;
  const int fd = ::open(path.c_str(), O_RDWR);
  std::vector<std::int64_t> seen{
      error_of(::open(nowhere, O_RDONLY)),
      error_of(::stat(path.c_str(), reinterpret_cast<struct stat*>(nowhere))),
      error_of(::fstat(fd, reinterpret_cast<struct stat*>(nowhere))),
      error_of(::statx(AT_FDCWD, path.c_str(), 0, 0, reinterpret_cast<struct statx*>(nowhere))),
      error_of(::mkdir(nowhere, 0700)),
      error_of(::symlink(nowhere, (in + "/b").c_str())),
      error_of(::rename(nowhere, path.c_str())),
      error_of(::utimensat(AT_FDCWD, path.c_str(), reinterpret_cast<timespec*>(nowhere), 0)),
      error_of(::ioctl(fd, FIONREAD, nowhere)),
      error_of(::chmod(nowhere, 0600)),
      error_of(change_mode(fd, none, 0600, 0)),
      error_of(change_owner(fd, none, ::getuid(), ::getgid(), 0)),
      error_of(::utimes(path.c_str(), reinterpret_cast<timeval*>(nowhere))),
      error_of(::utime(path.c_str(), reinterpret_cast<utimbuf*>(nowhere))),
      error_of(::sendfile(fd, fd, reinterpret_cast<off_t*>(nowhere), 1)),
      error_of(::copy_file_range(fd, nullptr, fd, reinterpret_cast<off64_t*>(nowhere), 1, 0)),
  };
  const int before = ::open(".", O_RDONLY | O_DIRECTORY);
  (void)::chdir(in.c_str());
  seen.push_back(::getcwd(nowhere, 1000) == nullptr ? errno : 0);
  (void)::fchdir(before);
  ::close(before);
  // Memory that can be read only. Such a read moves no position.
  void* const constant = ::mmap(nullptr, 3 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char byte = 0;
  seen.push_back(error_of(::read(fd, constant, 4)));
  seen.push_back(error_of(::read(fd, constant, 3 << 20)));
  seen.push_back(::read(fd, &byte, 1) == 1 ? byte : -1);
  const int appends = ::open(path.c_str(), O_RDWR | O_APPEND);
  seen.push_back(error_of(::read(appends, constant, 4)));
  seen.push_back(::read(appends, &byte, 1) == 1 ? byte : -1);
  ::munmap(constant, 3 << 20);
  ::close(appends);
  ::close(fd);
  return seen;
}

TEST_P(calls, check_memory_like_the_kernel) {
  write_file(at_host("a"), "0123456789");
  std::vector<std::int64_t> expected(19, EFAULT);
  expected.insert(expected.end(), {'0', EFAULT, '0'});
  EXPECT_EQ(sync(target_, &pass_bad_memory, in_), expected);
  const auto as_client = +[](const std::string& in) { return in_child(pass_bad_memory, in); };
  EXPECT_EQ(sync(target_, as_client, in_), expected);
}

TEST_P(calls, copy_as_the_kernel_does) {
  write_file(at_host("a"), "0123456789abcdef");
  const auto use = +[](const std::string& in) {
    const int fd = ::open((in + "/a").c_str(), O_RDWR);
    const int appends = ::open((in + "/b").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
    std::array<int, 2> pipe{};
    std::vector<std::int64_t> seen{::pipe(pipe.data())};
    off_t from = 0;
    off_t to = 4;
    seen.push_back(error_of(::copy_file_range(fd, &from, fd, &to, 10, 0)));
    seen.push_back(::copy_file_range(fd, &from, fd, &to, 4, 0));
    from = 12;
    to = 16;
    seen.push_back(::copy_file_range(fd, &from, fd, &to, 1 << 30, 0));
    seen.push_back(error_of(::copy_file_range(fd, nullptr, appends, nullptr, 1, 0)));
    seen.push_back(error_of(::sendfile(appends, pipe[0], nullptr, 1)));
    seen.push_back(error_of(::open(in.c_str(), O_TMPFILE | O_RDWR, 0600)));
    seen.push_back(error_of(::lseek(fd, INT64_MAX, SEEK_CUR)));
    seen.push_back(::lseek(fd, 1, SEEK_SET));
    seen.push_back(error_of(::lseek(fd, INT64_MAX, SEEK_CUR)));
    for (const int each : {fd, appends, pipe[0], pipe[1]})
      ::close(each);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_),
              ElementsAre(0, EINVAL, 4, 4, EBADF, EINVAL, EOPNOTSUPP, 0, 1, EINVAL));
  EXPECT_EQ(content_of_file(at_host("a")), "0123012389abcdefcdef");
}

TEST_P(calls, are_made_by_number) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    struct statx x{};
    char byte = 0;
    std::vector<std::int64_t> seen{
        error_of(::syscall(SYS_statx, AT_FDCWD, path.c_str(), 0, STATX_SIZE, &x)),
        static_cast<std::int64_t>(x.stx_size)};
    const auto fd =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0));
    seen.push_back(::syscall(SYS_pread64, fd, &byte, 1, 1));
    seen.push_back(byte);
    seen.push_back(::syscall(SYS_close, fd));
    seen.push_back(::syscall(SYS_getpid) == ::getpid() ? 0 : 1);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), ElementsAre(0, 3, 1, 'b', 0, 0));
}

TEST_P(calls, know_flags_as_the_kernel_does) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    struct stat s{};
    struct statx x{};
    constexpr int unknown = 1 << 30;
    const char* const p = path.c_str();
    const int fd = ::open(p, O_RDONLY);
    std::vector<int> seen{
        error_of(::fstatat(AT_FDCWD, p, &s, unknown)),
        error_of(::statx(AT_FDCWD, p, unknown, 0, &x)),
        error_of(::statx(AT_FDCWD, p, AT_STATX_DONT_SYNC, 0, &x)),
        error_of(::unlinkat(AT_FDCWD, p, unknown)),
        error_of(::linkat(AT_FDCWD, p, AT_FDCWD, (path + "b").c_str(), unknown)),
        error_of(::fchownat(AT_FDCWD, p, 0, 0, unknown)),
        error_of(::utimensat(AT_FDCWD, p, nullptr, unknown)),
        error_of(::faccessat(AT_FDCWD, p, F_OK, unknown)),
        error_of(::symlink("none", (path + "link").c_str())),
        error_of(::faccessat(AT_FDCWD, (path + "link").c_str(), F_OK, AT_SYMLINK_NOFOLLOW)),
        error_of(::faccessat(AT_FDCWD, (path + "link").c_str(), F_OK, 0)),
        error_of(::symlink(std::string(9000, 'x').c_str(), (path + "long").c_str())),
        error_of(::mkdir((path + "folder").c_str(), 0755)),
        error_of(::unlink((path + "folder/.").c_str())),
        error_of(::rename((path + "folder/.").c_str(), (path + "b").c_str())),
        error_of(::rename((path + "folder").c_str(), (path + "folder/b").c_str())),
        ::posix_fadvise(fd, 0, 0, 77),
        ::posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED),
    };
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"),
              ElementsAre(EINVAL, EINVAL, 0, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, 0, 0, ENOENT,
                          ENAMETOOLONG, 0, EISDIR, EBUSY, EINVAL, EINVAL, 0));
}

TEST_P(calls, show_files_behind_names_of_descriptors) {
  write_file(at_host("a"), "abc");
  std::filesystem::permissions(at_host("a"), std::filesystem::perms(0400));
  const auto use = +[](const std::string& path) {
    const int before = ::dup(STDIN_FILENO);
    const int fd = ::open(path.c_str(), O_RDONLY);
    ::dup2(fd, STDIN_FILENO);
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    struct stat s{};
    struct stat t{};
    struct statx x{};
    std::vector<std::int64_t> seen{
        ::stat("/dev/stdin", &s),
        ::fstatat(AT_FDCWD, name.c_str(), &t, 0),
        ::statx(AT_FDCWD, name.c_str(), 0, STATX_SIZE, &x),
        S_ISREG(s.st_mode) && s.st_size == 3 && S_ISREG(t.st_mode) && x.stx_size == 3 ? 0 : 1,
        ::faccessat(fd, "", R_OK, AT_EMPTY_PATH),
        ::faccessat(fd, "", W_OK, AT_EMPTY_PATH) == -1 ? errno - EACCES : 1,
    };
    ::dup2(before, STDIN_FILENO);
    ::close(before);
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), Each(0));
}

TEST_P(calls, append_from_the_end) {
  write_file(at_host("a"), "0123456789");
  const auto use = +[](const std::string& in) {
    const std::string path = in + "/a";
    std::FILE* const appends = std::fopen(path.c_str(), "a");
    std::vector<std::int64_t> seen{std::ftell(appends), std::fputs("abc", appends),
                                   std::ftell(appends), std::fclose(appends)};
    std::ofstream out(path, std::ios::app);
    seen.push_back(out.tellp());
    out << "xyz";
    seen.push_back(out.tellp());
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ElementsAre(10, 1, 13, 0, 13, 16));
  EXPECT_EQ(content_of_file(at_host("a")), "0123456789abcxyz");
}

} // namespace
} // namespace farcall::test
