// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of files of a mount that are used by several descriptors at a time.
namespace farcall::test::file_operations_test {
namespace {

class files_in_mounts : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, files_in_mounts, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

/// Changes the mode of a file, and makes links to it, while another thread opens and closes it.
/// Returns the error of the first call that fails.
std::string change_beside_closes(const std::string& path) {
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends.load())
      ::close(::open(path.c_str(), O_RDONLY));
  });
  std::string failed;
  for (int i = 0; i < 100 && failed.empty(); ++i) {
    if (::chmod(path.c_str(), i % 2 == 0 ? 0600 : 0644) != 0) failed = std::strerror(errno);
  }
  ends.store(true);
  other.join();
  return failed;
}

TEST_P(files_in_mounts, are_changed_while_others_close_them) {
  write_file(in("f"), "content");
  EXPECT_EQ(sync(target_, change_beside_closes, in("f")), "");
}

TEST_P(files_in_mounts, without_a_name_are_truncated) {
  const auto use = +[](const std::string& path) -> std::string {
    const unique_fd file(::open(path.c_str(), O_RDONLY));
    if (::unlink(path.c_str()) != 0) return "unlink";
    const std::string self = "/proc/self/fd/" + std::to_string(file.get());
    if (::truncate(self.c_str(), 3) != 0) return std::strerror(errno);
    struct stat s{};
    return ::fstat(file.get(), &s) == 0 && s.st_size == 3 ? "" : "size";
  };
  write_file(in("f"), "content");
  EXPECT_EQ(sync(target_, use, in("f")), "");
}

TEST_P(files_in_mounts, keep_mapped_pages_in_their_places_when_others_append) {
  const auto use = +[](const std::string& path) -> std::string {
    const unique_fd file(::open(path.c_str(), O_RDWR));
    auto* const mapped = static_cast<char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    if (mapped == MAP_FAILED) return "mmap";
    if (::fcntl(file.get(), F_SETFL, O_APPEND) != 0 || ::write(file.get(), "x", 1) != 1)
      return "write";
    mapped[0] = 'y';
    if (::msync(mapped, 4096, MS_SYNC) != 0) return "msync";
    return ::write(file.get(), "z", 1) == 1 && ::fsync(file.get()) == 0 ? "" : "write again";
  };
  write_file(in("f"), std::string(4096, 'a'));
  EXPECT_EQ(sync(target_, use, in("f")), "");
  EXPECT_EQ(content_of_file(in("f")), "y" + std::string(4095, 'a') + "xz");
}

TEST_P(files_in_mounts, have_shared_mappings_though_they_are_appended_to) {
  if (!is_linux_from(6, 6)) GTEST_SKIP() << "mappings of files that are not cached need Linux 6.6";
  const auto use = +[](const std::string& path) -> std::string {
    const unique_fd file(::open(path.c_str(), O_RDWR | O_APPEND));
    auto* const mapped = static_cast<char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    if (mapped == MAP_FAILED) return std::strerror(errno);
    mapped[1] = 'y';
    if (::write(file.get(), "x", 1) != 1) return "write";
    char seen[2]{};
    if (::pread(file.get(), seen, 2, 0) != 2 || seen[1] != 'y') return "read";
    return ::munmap(mapped, 4096) == 0 ? "" : "munmap";
  };
  write_file(in("f"), std::string(4096, 'a'));
  EXPECT_EQ(sync(target_, use, in("f")), "");
  EXPECT_EQ(content_of_file(in("f")), "ay" + std::string(4094, 'a') + "x");
}

TEST_P(files_in_mounts, are_written_from_mappings_that_became_read_only) {
  const auto use = +[](const std::string& path) -> std::string {
    // The file stays open, because closing it would write the mapping.
    const int file = ::open(path.c_str(), O_RDWR);
    auto* const mapped =
        static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (mapped == MAP_FAILED) return "mmap";
    mapped[0] = 'b';
    return ::mprotect(mapped, 4096, PROT_READ) == 0 ? "" : "mprotect";
  };
  write_file(in("f"), std::string(4096, 'a'));
  EXPECT_EQ(sync(target_, use, in("f")), "");
  job_.reset();
  EXPECT_EQ(content_of_file(in("f")), "b" + std::string(4095, 'a'));
}

/// Writes to a file for which the host has no space, while another thread closes duplicates of its
/// descriptor. Returns how many files were closed without an error.
int close_without_error(const std::string& path) {
  int silent = 0;
  for (int i = 0; i < 100; ++i) {
    const int file = ::open(path.c_str(), O_WRONLY);
    if (file < 0) return -1;
    std::atomic<bool> ends{false};
    std::atomic<int> errors{0};
    std::thread other([&] {
      while (!ends.load()) {
        if (::close(::dup(file)) != 0) errors.fetch_add(1);
      }
    });
    if (::write(file, "x", 1) < 0) errors.fetch_add(1);
    ends.store(true);
    other.join();
    if (::close(file) != 0) errors.fetch_add(1);
    if (errors.load() == 0) ++silent;
  }
  return silent;
}

/// Writes 12 MiB where there is space for the last 4 MiB only. Returns 0 if an error is reported.
/// The system divides each write into several requests.
int write_without_error(const std::string& path) {
  constexpr std::size_t all = std::size_t{12} << 20;
  constexpr std::size_t last = std::size_t{4} << 20;
  const std::string bytes(all, 'x');
  const int file = ::open(path.c_str(), O_WRONLY);
  if (::pwrite(file, bytes.data(), last, all - last) != last || ::fsync(file) != 0) return 1;
  for (std::size_t done = 0; done < all;) {
    const ssize_t written = ::write(file, bytes.data() + done, all - done);
    if (written < 0) return 0;
    done += static_cast<std::size_t>(written);
  }
  return ::fsync(file) == 0 && ::close(file) == 0 ? 2 : 0;
}

/// Runs a function with the path of a file on a target. The prefix is a file system of this size.
int host_with_space(const char* size, int (*use)(const std::string&), bool is_full) {
  const std::string in = std::string(std::getenv("FARCALL_TEST_TREE")) + "/in";
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", in.c_str(), "tmpfs", 0, size) != 0) {
    say("no mounts");
    return 0;
  }
  write_file(in + "/f", "");
  if (is_full) write_file(in + "/full", std::string(65536, 'x'));
  job j(with_host_files(in));
  say(std::to_string(sync(j.targets().front(), use, in + "/f")));
  return 0;
}
const role the_host_without_space("host without space", [] {
  return host_with_space("size=16384", close_without_error, true);
});
const role the_host_with_little_space("host with little space", [] {
  return host_with_space("size=8m", write_without_error, false);
});

class mounts_of_full_file_systems : public ::testing::TestWithParam<const char*> {};

TEST_P(mounts_of_full_file_systems, report_each_failed_write) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  const scratch_tree tree{"in"};
  const scoped_variable where("FARCALL_TEST_TREE",
                              std::filesystem::path(tree / ".").parent_path().c_str());
  const mounting_variables mounting;
  role_process host(GetParam());
  const std::string said = host.line();
  if (said == "no mounts") GTEST_SKIP() << "this user may mount nothing";
  EXPECT_EQ(said, "0");
}

INSTANTIATE_TEST_SUITE_P(of, mounts_of_full_file_systems,
                         ::testing::Values("host without space", "host with little space"));

} // namespace
} // namespace farcall::test::file_operations_test
