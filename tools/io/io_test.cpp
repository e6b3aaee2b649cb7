// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/// Tests with targets that have preloaded the library, and use only functions of libc.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class forwarded_files : public forwarding_job {};

INSTANTIATE_TEST_SUITE_P(over, forwarded_files, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(forwarded_files, are_what_open_opens) {
  write_file(tree_ / "read/a", "from the host");
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDONLY);
    if (!is_forwarded(fd)) return "not forwarded";
    return content_of(fd);
  };
  EXPECT_EQ(sync(target_, use, tree_ / "read/a"), "from the host");
  const auto write_it = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0640);
    if (!is_forwarded(fd)) return "not forwarded";
    if (::write(fd, "abc", 3) != 3 || ::pwrite(fd, "B", 1, 1) != 1) return "not written";
    return ::close(fd) == 0 ? "" : "not closed";
  };
  EXPECT_EQ(sync(target_, write_it, tree_ / "in/new"), "");
  EXPECT_EQ(content_of_file(tree_ / "in/new"), "aBc");
  struct stat s{};
  ASSERT_EQ(::stat((tree_ / "in/new").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U & ~0640U, 0U);
  const auto others = +[] {
    const int fd = ::open("/proc/self/stat", O_RDONLY);
    const bool is_local = !is_forwarded(fd);
    ::close(fd);
    return is_local;
  };
  EXPECT_TRUE(sync(target_, others)) << "what is not beneath a prefix";
}

TEST_P(forwarded_files, give_the_errors_of_local_calls) {
  write_file(tree_ / "read/a", "abc");
  write_file(tree_ / "in/a", "abc");
  fs::create_directories(tree_ / "in/folder/inner");
  fs::create_symlink("loop", tree_ / "in/loop");
  const auto errors = +[](const std::string& tree) {
    const std::string in = tree + "/in";
    const auto opening = [&](const std::string& path, int flags) {
      return error_of(::open((tree + path).c_str(), flags, 0644));
    };
    char byte = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the compiler is not to know that it is nowhere
    char* volatile nowhere = reinterpret_cast<char*>(std::uintptr_t{64});
    const int file = ::open((in + "/a").c_str(), O_RDONLY);
    const int folder = ::open(in.c_str(), O_RDONLY);
    const int gone = ::dup(file);
    ::close(gone);
    iovec bad{nowhere, 1};
    iovec many[2000] = {};
    struct stat s{};
    std::vector<int> seen{
        opening("/in/none", O_RDONLY),
        opening("/in/a/b", O_RDONLY),
        opening("/in/folder", O_WRONLY),
        opening("/in/a", O_WRONLY | O_CREAT | O_EXCL),
        opening("/in/loop", O_RDONLY),
        opening("/in/loop", O_RDONLY | O_NOFOLLOW),
        opening("/read/a", O_RDWR),
        opening("/in/" + std::string(300, 'x'), O_RDONLY),
        error_of(::read(gone, &byte, 1)),
        error_of(::close(gone)),
        error_of(::read(file, nowhere, 1)),
        error_of(::readv(file, &bad, 1)),
        error_of(::write(file, &byte, 1)),
        error_of(::read(folder, &byte, 1)),
        error_of(::pread(file, &byte, 1, -1)),
        error_of(::readv(file, many, 2000)),
        error_of(::lseek(file, -1, SEEK_SET)),
        error_of(::ftruncate(file, 0)),
        error_of(::stat((in + "/none").c_str(), &s)),
        error_of(::unlink((in + "/folder").c_str())),
        error_of(::rmdir((in + "/folder").c_str())),
        error_of(::mkdir((in + "/folder").c_str(), 0755)),
        error_of(::rename((in + "/a").c_str(), "/tmp/farcall_elsewhere")),
        error_of(::access((tree + "/read/a").c_str(), W_OK)),
        error_of(::fcntl(file, F_SETLK, nullptr)),
        ::mmap(nullptr, 3, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED ? errno : 0,
    };
    ::close(file);
    ::close(folder);
    return seen;
  };
  EXPECT_THAT(sync(target_, errors, tree_ / "."),
              ElementsAre(ENOENT, ENOTDIR, EISDIR, EEXIST, ELOOP, ELOOP, EACCES, ENAMETOOLONG,
                          EBADF, EBADF, EFAULT, EFAULT, EBADF, EISDIR, EINVAL, EINVAL, EINVAL,
                          EINVAL, ENOENT, EISDIR, ENOTEMPTY, EEXIST, EXDEV, EACCES, ENOLCK,
                          ENODEV));
}

TEST_P(forwarded_files, check_the_memory_of_vectors) {
  write_file(tree_ / "in/a", "0123456789");
  const auto use = +[](const std::string& path) {
    volatile std::uintptr_t address = 64;
    auto* const nowhere = reinterpret_cast<char*>(address);
    char here[8] = {};
    const iovec bad[]{{here, 4}, {nowhere, 4}};
    const iovec worse[]{{nowhere, 4}, {here, 4}};
    std::vector<std::int64_t> seen;
    const int fd = ::open(path.c_str(), O_RDWR);
    seen.push_back(::readv(fd, bad, 2));
    seen.push_back(::lseek(fd, 0, SEEK_CUR));
    seen.push_back(std::string(here, 4) == "0123" ? 0 : 1);
    seen.push_back(error_of(::readv(fd, worse, 2)));
    seen.push_back(::lseek(fd, 0, SEEK_CUR));
    seen.push_back(::pwritev(fd, bad, 2, 6));
    seen.push_back(error_of(::writev(fd, worse, 2)));
    seen.push_back(error_of(::preadv(fd, reinterpret_cast<const iovec*>(nowhere), 2, 0)));
    ::close(fd);
    // For a file whose position is the host's.
    const int appends = ::open(path.c_str(), O_RDWR | O_APPEND);
    seen.push_back(error_of(::read(appends, nowhere, 4)));
    seen.push_back(::lseek(appends, 0, SEEK_CUR));
    ::close(appends);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / "in/a"),
              ElementsAre(4, 4, 0, EFAULT, 4, 4, EFAULT, EFAULT, EFAULT, 0));
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "0123450123");
}

TEST_P(forwarded_files, are_replaced_while_threads_use_the_descriptor) {
  write_file(tree_ / "in/a", std::string(100, 'a'));
  write_file(tree_ / "in/b", std::string(100, 'b'));
  const auto use = +[](const std::string& tree) -> std::string {
    const int fd = ::open((tree + "/in/a").c_str(), O_RDONLY);
    std::atomic<bool> is_over{false};
    std::atomic<int> wrong{0};
    std::thread reader([&] {
      for (char byte = 0; !is_over.load();) {
        if (::pread(fd, &byte, 1, 50) != 1) ++wrong;
      }
    });
    for (int i = 0; i < 60; ++i) {
      // The last file is the system's.
      const std::string name = i == 59 ? "/proc/self/exe" : tree + (i % 2 == 0 ? "/in/b" : "/in/a");
      const int next = ::open(name.c_str(), O_RDONLY);
      if (::dup2(next, fd) != fd) ++wrong;
      ::close(next);
    }
    is_over.store(true);
    reader.join();
    ::close(fd);
    return wrong.load() == 0 ? "" : std::to_string(wrong.load()) + " reads went elsewhere";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "."), "");
}

TEST_P(forwarded_files, stay_inside_their_prefixes) {
  write_file(tree_ / "secret", "secret");
  fs::create_directories(tree_ / "in/folder");
  fs::create_symlink("../secret", tree_ / "in/out");
  fs::create_symlink(tree_ / "secret", tree_ / "in/absolute");
  fs::create_symlink("/proc/self/fd", tree_ / "in/magic");
  ASSERT_EQ(::mkfifo((tree_ / "in/pipe").c_str(), 0600), 0);
  const auto escapes = +[](const std::string& tree) {
    std::vector<int> seen;
    for (const char* path : {"/in/../secret", "/in/folder/../../secret", "/in/out", "/in/absolute",
                             "/in/magic/0", "/in/pipe"}) {
      seen.push_back(error_of(::open((tree + path).c_str(), O_RDONLY)));
    }
    // Moving a folder out while it is in use does not open its new neighbours.
    seen.push_back(error_of(::rename((tree + "/in/folder").c_str(), (tree + "/in/../x").c_str())));
    seen.push_back(error_of(::mkdir((tree + "/in/../x").c_str(), 0755)));
    seen.push_back(error_of(::unlink((tree + "/in/../secret").c_str())));
    // A prefix for the file itself allows that file, and no file beside it.
    char byte = 1;
    const int zero = ::open("/dev/zero", O_RDONLY);
    seen.push_back(is_forwarded(zero) && ::read(zero, &byte, 1) == 1 && byte == 0 ? 0 : -1);
    ::close(zero);
    const int folder = ::open((tree + "/in/folder").c_str(), O_RDONLY | O_DIRECTORY);
    seen.push_back(error_of(::openat(folder, "../../secret", O_RDONLY)));
    seen.push_back(error_of(::openat(folder, "new", O_WRONLY | O_CREAT, 0644)));
    return seen;
  };
  EXPECT_THAT(sync(target_, escapes, tree_ / "."),
              ElementsAre(EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, 0,
                          EACCES, 0));
  EXPECT_TRUE(fs::exists(tree_ / "in/folder/new"));
  EXPECT_TRUE(fs::exists(tree_ / "secret"));
  EXPECT_FALSE(fs::exists(tree_ / "x"));
}

TEST_P(forwarded_files, have_real_descriptors) {
  write_file(tree_ / "in/a", "0123456789");
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDWR);
    const int copy = ::dup(fd);
    const int third = ::fcntl(fd, F_DUPFD, 100);
    const int fourth = ::dup2(fd, 200);
    char byte = 0;
    if (third < 100 || fourth != 200) return "numbers";
    if (::read(fd, &byte, 1) != 1 || ::read(copy, &byte, 1) != 1 || byte != '1') return "dup";
    if (::close(fd) != 0 || ::read(third, &byte, 1) != 1 || byte != '2') return "close";
    if (::lseek(fourth, 0, SEEK_CUR) != 3) return "position";
    pollfd polled{copy, POLLIN | POLLOUT, 0};
    if (::poll(&polled, 1, 0) != 1 || polled.revents != (POLLIN | POLLOUT)) return "poll";
    int waiting = 0;
    if (::ioctl(copy, FIONREAD, &waiting) != 0 || waiting != 7) return "ioctl";
    if (::isatty(copy) != 0) return "isatty";
    if ((::fcntl(copy, F_GETFL) & (O_ACCMODE | O_APPEND)) != O_RDWR) return "F_GETFL";
    if (::fcntl(copy, F_SETFL, O_APPEND) != 0) return "F_SETFL";
    if (::write(copy, "x", 1) != 1 || ::lseek(third, 0, SEEK_CUR) != 11) return "append";
    if ((::fcntl(copy, F_GETFD) & FD_CLOEXEC) != 0) return "close-on-exec, unasked";
    if (::fcntl(copy, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(copy, F_GETFD) != FD_CLOEXEC)
      return "close-on-exec";
    struct stat s{};
    if (::fstat(copy, &s) != 0 || s.st_size != 11 || !S_ISREG(s.st_mode)) return "fstat";
    // A local file takes over the number.
    const int local = ::open("/proc/self/stat", O_RDONLY);
    if (::dup2(local, 200) != 200 || is_forwarded(200)) return "dup2 over it";
    for (const int each : {copy, third, 200, local})
      ::close(each);
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), "");
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "0123456789x");
}

TEST_P(forwarded_files, are_read_by_streams_of_c_and_cpp) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    lines += "line " + std::to_string(i) + "\n";
  write_file(tree_ / "read/lines", lines);
  const auto use = +[](const std::string& tree) -> std::string {
    std::FILE* const in = std::fopen((tree + "/read/lines").c_str(), "r");
    if (in == nullptr) return "fopen";
    if (!is_forwarded(::fileno(in))) return "fileno";
    char line[64];
    int count = 0;
    while (std::fgets(line, sizeof line, in) != nullptr)
      ++count;
    if (count != 20'000 || std::strcmp(line, "line 19999\n") != 0) return "fgets";
    if (std::fseek(in, 5, SEEK_SET) != 0 || std::fgetc(in) != '0') return "fseek";
    if (std::fclose(in) != 0) return "fclose";

    std::FILE* const out = std::fopen((tree + "/in/c").c_str(), "w+");
    if (out == nullptr || std::fprintf(out, "%d\n", 42) != 3) return "fprintf";
    std::rewind(out);
    if (std::fgets(line, sizeof line, out) == nullptr || std::string(line) != "42\n") return "w+";
    std::fclose(out);
    std::FILE* const more = std::fopen((tree + "/in/c").c_str(), "a");
    std::fputs("43\n", more);
    std::fclose(more);
    const int fd = ::open((tree + "/in/c").c_str(), O_RDONLY);
    if (::fdopen(fd, "w") != nullptr || errno != EINVAL) return "fdopen for writing";
    std::FILE* const again = ::fdopen(fd, "r");
    if (std::fscanf(again, "%d %d", &count, &count) != 2 || count != 43) return "fdopen";
    std::fclose(again);

    std::ifstream read(tree + "/read/lines");
    std::string word;
    for (count = 0; read >> word;)
      ++count;
    if (count != 40'000) return "ifstream";
    std::ofstream(tree + "/in/cpp") << std::string(100'000, 'x') << std::endl;
    if (std::fopen((tree + "/read/none").c_str(), "r") != nullptr || errno != ENOENT) return "none";
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "."), "");
  EXPECT_EQ(content_of_file(tree_ / "in/c"), "42\n43\n");
  EXPECT_EQ(content_of_file(tree_ / "in/cpp"), std::string(100'000, 'x') + "\n");
}

TEST_P(forwarded_files, are_used_by_wide_streams) {
  std::string lines = "a\xc3\xa4\xe2\x82\xac\n";
  for (int i = 0; i < 5'000; ++i)
    lines += "\xc3\xbc";
  write_file(tree_ / "read/lines", lines + "\n\xf0\x9f\x99\x82-\xc3");
  const auto use = +[](const std::string& tree) -> std::string {
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) return "setlocale";
    std::FILE* const in = std::fopen((tree + "/read/lines").c_str(), "r,ccs=UTF-8");
    if (in == nullptr || !is_forwarded(::fileno(in)) || std::fwide(in, 0) != 0) return "fopen";
    std::vector<wchar_t> line(6'000);
    if (std::fgetws(line.data(), 3, in) == nullptr || std::wcscmp(line.data(), L"a\u00e4") != 0)
      return "fgetws, as much as there is space for";
    if (std::fwide(in, -1) <= 0) return "fwide";
    const long before = std::ftell(in);
    if (std::fgetwc(in) != L'\u20ac' || std::ungetwc(L'\u20ac', in) != L'\u20ac') return "ungetwc";
    if (std::ftell(in) != before || std::getwc(in) != L'\u20ac') return "getwc";
    if (std::ungetwc(L'\u00e4', in) != L'\u00e4' || std::getwc(in) != L'\u00e4') return "another";
    if (std::fgetws(line.data(), 6'000, in) == nullptr || std::wcscmp(line.data(), L"\n") != 0)
      return "the end of a line";
    if (std::fgetws(line.data(), 6'000, in) == nullptr || std::wcslen(line.data()) != 5'001)
      return "a long line";
    if (std::fseek(in, -6, SEEK_END) != 0 || std::fgetwc(in) != L'\U0001f642') return "fseek";
    int number = 0;
    errno = 0;
    if (std::fwscanf(in, L"%d", &number) != EOF || errno != ENOTSUP) return "fwscanf";
    std::clearerr(in);
    if (std::fgetwc(in) != L'-' || std::ferror(in) != 0) return "behind fwscanf";
    errno = 0;
    if (std::fgetwc(in) != WEOF || errno != EILSEQ || std::ferror(in) == 0) return "half of one";
    std::rewind(in);
    if (std::fgetwc(in) != L'a' || std::fclose(in) != 0) return "rewind";

    std::FILE* const out = std::fopen((tree + "/in/out").c_str(), "w+");
    if (std::fputws(L"a\u00e4\n", out) < 0 || std::fputwc(L'\u20ac', out) != L'\u20ac')
      return "fputws";
    if (std::fwprintf(out, L"%d %ls %s\n", 42, L"\u00fc", "\xc3\xb6") != 7) return "fwprintf";
    errno = 0;
    if (std::fputws(L"b\xd800z", out) >= 0 || errno != EILSEQ || std::ferror(out) == 0)
      return "no character";
    std::rewind(out);
    if (std::fgetws(line.data(), 100, out) == nullptr ||
        std::wcscmp(line.data(), L"a\u00e4\n") != 0)
      return "read back";
    while (std::fgetwc(out) != WEOF) {
    }
    if (std::feof(out) == 0 || std::ferror(out) != 0) return "the end";
    // A byte that is no character is not read twice.
    std::rewind(out);
    std::fputs("\xc3"
               "b",
               out);
    std::rewind(out);
    if (std::fgetwc(out) != WEOF || errno != EILSEQ || std::fgetwc(out) != L'b') return "invalid";
    if (std::fclose(out) != 0) return "fclose";

    // An encoding other than the locale's.
    if (std::fopen((tree + "/in/out").c_str(), "w,ccs=ISO-8859-1") != nullptr || errno != EINVAL)
      return "ccs";
    // Streams of the system's files stay libc's.
    std::FILE* const local = std::tmpfile();
    if (std::fputws(L"12 \u00e4", local) < 0 || std::fwprintf(local, L"%d", 3) != 1) return "local";
    std::rewind(local);
    if (std::fwscanf(local, L"%d %ls", &number, line.data()) != 2 || number != 12 ||
        std::wcscmp(line.data(), L"\u00e43") != 0)
      return "local fwscanf";
    std::fclose(local);
    std::setlocale(LC_CTYPE, "C");
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "."), "");
  EXPECT_EQ(content_of_file(tree_ / "in/out"), "\xc3"
                                               "b\xa4\n\xe2\x82\xac"
                                               "42 \xc3\xbc \xc3\xb6\nb");
}

TEST_P(forwarded_files, are_written_before_the_job_ends) {
  const auto leave_open = +[](const std::string& path) {
    for (int i = 0; i < 260; ++i) {
      std::FILE* const out = std::fopen((path + std::to_string(i)).c_str(), "w");
      std::fputs("not flushed", out);
    }
  };
  sync(target_, leave_open, tree_ / "in/a");
  job_.reset();
  for (int i = 0; i < 260; ++i)
    EXPECT_EQ(content_of_file(tree_ / ("in/a" + std::to_string(i))), "not flushed");
}

TEST_P(forwarded_files, can_become_standard_input) {
  write_file(tree_ / "read/a", "first second");
  const auto use = +[](const std::string& path) -> std::string {
    if (std::freopen(path.c_str(), "r", stdin) == nullptr) return "freopen";
    char word[16];
    if (std::scanf("%15s", word) != 1) return "scanf";
    return std::string(word) + (is_forwarded(STDIN_FILENO) ? "" : ", elsewhere");
  };
  EXPECT_EQ(sync(target_, use, tree_ / "read/a"), "first");
}

TEST_P(forwarded_files, are_listed_by_folders) {
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file with a long name " + std::to_string(i);
    write_file(tree_ / ("in/many/" + name), "");
    expected.insert(name);
  }
  const auto list = +[](const std::string& path) {
    std::vector<std::string> seen;
    DIR* const folder = ::opendir(path.c_str());
    while (const dirent* const entry = ::readdir(folder))
      seen.emplace_back(entry->d_name);
    ::rewinddir(folder);
    const bool begins_anew = ::readdir(folder) != nullptr;
    const bool is_ours = is_forwarded(::dirfd(folder));
    if (::closedir(folder) != 0 || !begins_anew || !is_ours) seen.clear();
    // Like find and ls.
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY);
    DIR* const other = ::fdopendir(fd);
    if (other == nullptr || ::readdir(other) == nullptr || ::closedir(other) != 0) seen.clear();
    return seen;
  };
  const std::vector<std::string> seen = sync(target_, list, tree_ / "in/many");
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), expected);
  EXPECT_EQ(seen.size(), expected.size());
  const auto names = +[](const std::string& in) {
    struct stat s{};
    struct statx x{};
    char link[16] = {};
    std::vector<std::int64_t> results{
        ::mkdir((in + "/new").c_str(), 0755),
        ::rename((in + "/many").c_str(), (in + "/new/moved").c_str()),
        ::stat((in + "/new/moved").c_str(), &s),
        S_ISDIR(s.st_mode) ? 0 : 1,
        ::lstat((in + "/link").c_str(), &s),
        S_ISLNK(s.st_mode) ? 0 : 1,
        ::statx(AT_FDCWD, (in + "/file").c_str(), 0, STATX_SIZE, &x),
        static_cast<std::int64_t>(x.stx_size),
        ::readlink((in + "/link").c_str(), link, sizeof link),
        ::truncate((in + "/file").c_str(), 1),
        ::access((in + "/file").c_str(), R_OK),
        std::remove((in + "/link").c_str()),
    };
    return results;
  };
  write_file(tree_ / "in/file", "12345");
  fs::create_symlink("file", tree_ / "in/link");
  EXPECT_THAT(sync(target_, names, tree_ / "in"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 5, 4, 0, 0, 0));
  EXPECT_TRUE(fs::exists(tree_ / "in/new/moved"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(tree_ / "in/link")));
  EXPECT_EQ(content_of_file(tree_ / "in/file"), "1");
}

TEST_P(forwarded_files, are_copied_and_mapped) {
  std::string all(3'000'000, '\0');
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<char>(content(1, i));
  write_file(tree_ / "read/a", all);
  const auto use = +[](const std::string& tree) -> std::string {
    const int from = ::open((tree + "/read/a").c_str(), O_RDONLY);
    const int to = ::open((tree + "/in/b").c_str(), O_WRONLY | O_CREAT, 0644);
    off_t at = 10;
    if (::sendfile(to, from, &at, 100) != 100 || at != 110) return "sendfile";
    if (::lseek(from, 110, SEEK_SET) != 110) return "lseek";
    if (::copy_file_range(from, nullptr, to, nullptr, 5'000'000, 0) != 3'000'000 - 110)
      return "copy_file_range";
    // A copy with one local end.
    char name[] = "/tmp/farcall_io_XXXXXX";
    const int local = ::mkstemp(name);
    ::unlink(name);
    at = 0;
    if (::sendfile(local, from, &at, 1000) != 1000) return "sendfile to a local file";
    char* const mapped =
        static_cast<char*>(::mmap(nullptr, 2'000'000, PROT_READ, MAP_PRIVATE, from, 4096));
    if (mapped == MAP_FAILED) return "mmap";
    std::array<char, 1000> piece{};
    if (::pread(from, piece.data(), piece.size(), 1'000'000) != 1000) return "pread";
    if (!std::equal(piece.begin(), piece.end(), mapped + 1'000'000 - 4096)) return "mapped bytes";
    ::munmap(mapped, 2'000'000);
    for (const int each : {from, to, local})
      ::close(each);
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "."), "");
  EXPECT_TRUE(content_of_file(tree_ / "in/b") == all.substr(10));
}

TEST_P(forwarded_files, keep_modes_times_and_links) {
  write_file(tree_ / "in/a", "abc");
  write_file(tree_ / "read/a", "abc");
  // The local file of that name must stay untouched.
  fs::create_directories(tree_ / "host");
  fs::rename(tree_ / "in", tree_ / "host/in");
  const auto change = +[](const std::string& tree) -> std::string {
    const std::string in = tree + "/in/";
    const std::array<timespec, 2> times{timespec{5, 6}, timespec{7, 8}};
    struct stat s{};
    const int fd = ::open((in + "a").c_str(), O_RDWR);
    if (::fchmod(fd, 0640) != 0 || ::fstat(fd, &s) != 0 || (s.st_mode & 07777) != 0640)
      return "fchmod";
    if (::chmod((in + "a").c_str(), 0604) != 0) return "chmod";
    if (::fchown(fd, ::getuid(), ::getgid()) != 0) return "fchown";
    if (::utimensat(AT_FDCWD, (in + "a").c_str(), times.data(), 0) != 0 || ::fstat(fd, &s) != 0 ||
        s.st_atim.tv_sec != 5 || s.st_mtim.tv_nsec != 8)
      return "utimensat";
    if (::posix_fallocate(fd, 0, 10'000) != 0 || ::lseek(fd, 0, SEEK_END) != 10'000)
      return "posix_fallocate";
    if (::link((in + "a").c_str(), (in + "hard").c_str()) != 0 || ::fstat(fd, &s) != 0 ||
        s.st_nlink != 2)
      return "link";
    if (::symlink("hard", (in + "soft").c_str()) != 0) return "symlink";
    char real[PATH_MAX] = {};
    if (::realpath((in + "./soft").c_str(), real) == nullptr ||
        real != fs::path(in + "hard").lexically_normal())
      return "realpath";
    struct statvfs space{};
    if (::statvfs(in.c_str(), &space) != 0 || space.f_blocks == 0) return "statvfs";
    std::string name = in + "XXXXXX";
    const int temporary = ::mkstemp(name.data());
    if (temporary < 0 || !is_forwarded(temporary) || ::unlink(name.c_str()) != 0) return "mkstemp";
    dirent** all = nullptr;
    const int count = ::scandir(in.c_str(), &all, nullptr, ::alphasort);
    if (count != 5 || std::string(all[2]->d_name) != "a") return "scandir";
    for (int i = 0; i < count; ++i)
      std::free(all[i]);
    std::free(all);
    ::close(temporary);
    ::close(fd);
    return "";
  };
  EXPECT_EQ(sync(target_, change, tree_ / "."), "");
  const auto refused = +[](const std::string& tree) {
    const std::string in = tree + "/in/";
    const std::string read = tree + "/read/";
    const int fd = ::open((read + "a").c_str(), O_RDONLY);
    std::vector<int> seen{
        error_of(::chmod((in + "a").c_str(), 04755)),
        error_of(::chmod((read + "a").c_str(), 0777)),
        error_of(::fchmod(fd, 0777)),
        error_of(::utimes((read + "a").c_str(), nullptr)),
        error_of(::link((read + "a").c_str(), (in + "from read-only").c_str())),
        error_of(::link((in + "a").c_str(), (tree + "/elsewhere").c_str())),
        error_of(::symlink("x", (read + "b").c_str())),
        error_of(::mkfifo((in + "pipe").c_str(), 0600)),
        error_of(::chdir((in + "a").c_str())),
        error_of(::getxattr((in + "a").c_str(), "user.x", nullptr, 0)),
        ::realpath((in + "none").c_str(), nullptr) == nullptr ? errno : 0,
    };
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, refused, tree_ / "."),
              ElementsAre(EPERM, EACCES, EACCES, EACCES, EACCES, EXDEV, EACCES, EPERM, ENOTDIR,
                          ENOTSUP, ENOENT));
  EXPECT_EQ(fs::read_symlink(tree_ / "host/in/soft"), "hard");
  EXPECT_EQ(fs::status(tree_ / "host/in/a").permissions(), fs::perms(0604));
}

TEST(files_on_the_same_machine, are_used_directly) {
  const scratch_tree tree;
  write_file(tree / "a", "abc");
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  job_options options = with_targets("shm");
  options.host_files = tree / "";
  job j(options);
  const auto use = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    return (is_forwarded(fd) ? "forwarded " : "") + content_of(fd);
  };
  EXPECT_EQ(sync(j.targets().front(), use, tree / "a"), "abc");
}

TEST(files_of_hosts, need_the_library_on_other_machines) {
  const scratch_tree tree;
  server_options served;
  served.listen = {"127.0.0.1", 0};
  served.plain = true;
  served.program = running_program;
  served.arguments = {"farcall_io_tests"};
  const server s(std::move(served));
  job_options options =
      with_targets("tcp://127.0.0.1:" + std::to_string(s.addresses().front().port));
  options.host_files = tree / "";
  EXPECT_THAT(text_thrown_by<start_failed>([&] { job j(options); }),
              HasSubstr("farcall serve --host-files"));
}

} // namespace
} // namespace farcall::test
