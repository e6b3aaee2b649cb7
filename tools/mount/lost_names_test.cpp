// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/// Tests of open files that lose their names.
namespace farcall::test::lost_names_test {
namespace {

class files_that_lose_their_names : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, files_that_lose_their_names, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

/// Checks that an open file or folder without a name behaves as with a local file system. Returns
/// an empty text, or what is wrong.
std::string use_without_a_name(int file, nlink_t links) {
  struct stat s{};
  if (::fstat(file, &s) != 0) return std::string("fstat: ") + std::strerror(errno);
  if (s.st_nlink != links) return "links: " + std::to_string(s.st_nlink);
  const bool is_folder = S_ISDIR(s.st_mode);
  const std::array<timespec, 2> times{timespec{1'000, 0}, timespec{2'000, 0}};
  if (::fchmod(file, is_folder ? 0711 : 0611) != 0) return "fchmod";
  if (::futimens(file, times.data()) != 0) return "futimens";
  if (::fsync(file) != 0) return "fsync";
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return "flock";
  if (::fgetxattr(file, "user.a", nullptr, 0) != -1 || errno == ESTALE) return "fgetxattr";
  if (::fstat(file, &s) != 0 || s.st_mtim.tv_sec != 2'000 ||
      (s.st_mode & 07777) != (is_folder ? 0711U : 0611U))
    return "fstat again";
  if (is_folder) {
    std::array<char, 4096> entries{};
    const long got = ::syscall(SYS_getdents64, file, entries.data(), entries.size());
    return got == 0 || (got < 0 && errno == ENOENT) ? "" : "getdents64";
  }
  char byte = 0;
  if (::pwrite(file, "x", 1, 3) != 1 || ::pread(file, &byte, 1, 3) != 1 || byte != 'x')
    return "pwrite";
  if (::ftruncate(file, 2) != 0 || ::fstat(file, &s) != 0 || s.st_size != 2) return "ftruncate";
  return "";
}

/// Opens `path` twice, calls `remove`, and uses both open files.
template <class F>
std::string open_and_remove(const std::string& path, bool is_folder, nlink_t links,
                            const F& remove) {
  const int flags = is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR;
  const unique_fd first(::open(path.c_str(), flags));
  const unique_fd second(::open(path.c_str(), flags));
  if (!first || !second) return "open";
  if (remove() != 0) return std::string("remove: ") + std::strerror(errno);
  std::string failed = use_without_a_name(first.get(), links);
  (void)::flock(first.get(), LOCK_UN);
  if (failed.empty()) failed = use_without_a_name(second.get(), links);
  return failed;
}

/// Loses the names of open files and folders of `in` in each way. Returns what is wrong.
std::string lose_names(const std::string& in) {
  const auto at = [&](const char* name) { return in + "/" + name; };
  std::string wrong;
  const auto check = [&](const char* what, const std::string& failed) {
    if (!failed.empty()) wrong += std::string(what) + ": " + failed + "\n";
  };
  check("unlink", open_and_remove(at("a"), false, 0, [&] { return ::unlink(at("a").c_str()); }));
  check("rename", open_and_remove(at("b"), false, 0,
                                  [&] { return ::rename(at("new").c_str(), at("b").c_str()); }));
  check("link", open_and_remove(at("c"), false, 1, [&] {
          return ::link(at("c").c_str(), at("d").c_str()) != 0 ? -1 : ::unlink(at("c").c_str());
        }));
  check("last link", open_and_remove(at("d"), false, 0, [&] { return ::unlink(at("d").c_str()); }));
  check("exchange", open_and_remove(at("e"), false, 1, [&] {
          return ::renameat2(AT_FDCWD, at("e").c_str(), AT_FDCWD, at("f").c_str(), RENAME_EXCHANGE);
        }));
  check("rmdir", open_and_remove(at("g"), true, 0, [&] { return ::rmdir(at("g").c_str()); }));
  check("rename of a folder", open_and_remove(at("h"), true, 0, [&] {
          return ::rename(at("i").c_str(), at("h").c_str());
        }));
  return wrong;
}

TEST_P(files_that_lose_their_names, are_used_by_their_descriptors) {
  for (const char* const each : {"a", "b", "new", "c", "e", "f"})
    write_file(in(each), "content");
  for (const char* const each : {"g", "h", "i"})
    std::filesystem::create_directories(in(each));
  EXPECT_EQ(sync(target_, lose_names, in("")), "");
}

/// Removes files that are open by O_PATH only, and the working folder. Returns what is wrong.
std::string remove_what_is_not_open(const std::string& in) {
  const auto at = [&](const char* name) { return in + "/" + name; };
  const unique_fd file(::open(at("a").c_str(), O_PATH));
  const unique_fd linked(::open(at("b").c_str(), O_PATH));
  const unique_fd folder(::open(at("c").c_str(), O_PATH));
  struct stat s{};
  if (::fchdir(folder.get()) != 0 || ::link(at("b").c_str(), at("d").c_str()) != 0) return "link";
  if (::unlink(at("a").c_str()) != 0 || ::unlink(at("b").c_str()) != 0 ||
      ::rename(at("e").c_str(), at("c").c_str()) != 0)
    return "unlink";
  if (::fstat(file.get(), &s) != 0 || s.st_nlink != 0 || s.st_size != 7) return "a file";
  if (::fstat(linked.get(), &s) != 0 || s.st_nlink != 1) return "a link";
  if (::unlink(at("d").c_str()) != 0) return "unlink again";
  if (::fstat(linked.get(), &s) != 0 || s.st_nlink != 0) return "a removed link";
  if (::stat(".", &s) != 0 || s.st_nlink != 0 || !S_ISDIR(s.st_mode)) return "the working folder";
  return ::chdir("/") == 0 ? "" : "chdir";
}

TEST_P(files_that_lose_their_names, have_a_status_though_they_are_not_open) {
  for (const char* const each : {"a", "b"})
    write_file(in(each), "content");
  for (const char* const each : {"c", "e"})
    std::filesystem::create_directories(in(each));
  EXPECT_EQ(sync(target_, remove_what_is_not_open, in("")), "");
}

TEST_P(files_that_lose_their_names, are_used_by_other_processes) {
  EXPECT_EQ(shell("cd $I; echo a > a; echo b > b; mkdir c d; exec 3<a 4<b 5<c\n"
                  "sh -c 'exec 6<a; mv b a; stat -Lc %h /proc/self/fd/6; rm a; rmdir c'\n"
                  "stat -Lc %h /proc/self/fd/3 /proc/self/fd/4 /proc/self/fd/5; cat <&3; cat <&4"),
            "0\n0\n0\n0\na\nb\n");
}

} // namespace
} // namespace farcall::test::lost_names_test
