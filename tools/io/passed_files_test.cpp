// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests with targets on the host's machine, to which the host passes open files.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the system's name for the descriptor.
std::string name_of(int fd) {
  char name[4096] = {};
  (void)!::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  return name;
}

class passed_files : public ::testing::Test {
 protected:
  passed_files() {
    fs::create_directories(tree_ / "in");
    fs::create_directories(tree_ / "read");
    const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
    const scoped_variable forward("FARCALL_IO_FORWARD", "descriptors");
    job_options options;
    options.targets = "shm";
    options.host_files = (tree_ / "in,") + (tree_ / "read:ro");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  scratch_tree tree_;
  std::optional<job> job_;
  node target_;
};

TEST_F(passed_files, are_the_systems_own) {
  write_file(tree_ / "in/a", "from the host");
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (name_of(fd) != path) return name_of(fd);
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return "close-on-exec";
    if ((::fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) != O_RDWR) return "flags";
    // Forwarded files cannot be mapped so.
    auto* const mapped =
        static_cast<char*>(::mmap(nullptr, 13, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (mapped == MAP_FAILED || std::string(mapped, 13) != "from the host") return "mmap";
    mapped[0] = 'F';
    ::munmap(mapped, 13);
    const pid_t child = ::fork();
    if (child == 0) {
      char byte = 0;
      ::_exit(::pread(fd, &byte, 1, 0) == 1 && byte == 'F' ? 0 : 1);
    }
    int status = 1;
    (void)::waitpid(child, &status, 0);
    ::close(fd);
    std::FILE* const stream = std::fopen(path.c_str(), "r+");
    char line[32] = {};
    if (stream == nullptr || std::fgets(line, sizeof line, stream) == nullptr) return "fgets";
    if (name_of(::fileno(stream)) != path) return "fileno";
    std::fclose(stream);
    return status == 0 ? line : "child";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), "From the host");
}

TEST_F(passed_files, exclude_folders_and_outside_files) {
  write_file(tree_ / "secret", "");
  write_file(tree_ / "in/folder/a", "");
  write_file(tree_ / "read/b", "");
  const auto use = +[](const std::string& tree) {
    const int folder = ::open((tree + "/in/folder").c_str(), O_RDONLY | O_DIRECTORY);
    std::vector<std::string> seen{name_of(folder) == tree + "/in/folder" ? "a folder" : ""};
    const int inside = ::openat(folder, "a", O_RDONLY);
    seen.push_back(name_of(inside));
    for (const std::string path : {"/in/../secret", "/read/b"}) {
      const int fd = ::open((tree + path).c_str(), O_RDWR);
      seen.push_back(fd < 0 ? std::to_string(errno) : name_of(fd));
    }
    DIR* const listed = ::opendir((tree + "/in/folder").c_str());
    int count = 0;
    while (listed != nullptr && ::readdir(listed) != nullptr)
      ++count;
    seen.push_back(std::to_string(count));
    if (listed != nullptr) ::closedir(listed);
    return seen;
  };
  const std::string denied = std::to_string(EACCES);
  const std::string tree = fs::path(tree_ / "x").parent_path().string();
  EXPECT_THAT(sync(target_, use, tree),
              ElementsAre("", tree + "/in/folder/a", denied, denied, "3"));
}

TEST_F(passed_files, have_no_limit_of_their_own) {
  write_file(tree_ / "in/a", "x");
  const auto use = +[](const std::string& path) {
    std::size_t good = 0;
    for (std::size_t i = 0; i < 1100; ++i) {
      const int fd = ::open(path.c_str(), O_RDONLY);
      if (name_of(fd) == path) ++good;
      ::close(fd);
    }
    return good;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), 1100U);
}

TEST_F(passed_files, are_not_opened_without_a_free_descriptor) {
  write_file(tree_ / "in/a", "x");
  const auto use = +[](const std::string& path) {
    rlimit before{};
    (void)::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit less{100, before.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &less);
    std::vector<int> open;
    int fd = -1;
    while (open.size() < 200 && (fd = ::open(path.c_str(), O_RDONLY)) >= 0)
      open.push_back(fd);
    const int why = fd < 0 ? errno : 0;
    (void)::setrlimit(RLIMIT_NOFILE, &before);
    for (const int each : open)
      ::close(each);
    return why;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), EMFILE);
}

TEST_F(passed_files, keep_modes_and_times_if_they_are_read_only) {
  write_file(tree_ / "read/a", "x");
  write_file(tree_ / "in/a", "x");
  const auto use = +[](const std::string& tree) {
    const std::array<timespec, 2> times{};
    std::vector<int> seen;
    for (const char* name : {"/read/a", "/in/a"}) {
      const int fd = ::open((tree + name).c_str(), O_RDONLY);
      seen.push_back(error_of(::fchmod(fd, 0600)));
      seen.push_back(error_of(::fchown(fd, ::getuid(), ::getgid())));
      seen.push_back(error_of(::futimens(fd, times.data())));
      ::close(fd);
    }
    return seen;
  };
  const std::string tree = fs::path(tree_ / "x").parent_path().string();
  EXPECT_THAT(sync(target_, use, tree), ElementsAre(EACCES, EACCES, EACCES, 0, 0, 0));
}

/// A target in its own mount namespace, where an empty file system hides the folder.
TEST(files_of_a_sandbox, are_passed) {
  const scratch_tree tree;
  write_file(tree / "in/a", "from the host");
  const std::string hidden = fs::path(tree / "in/a").parent_path().string();
  const std::string enter = "unshare --mount --propagation private sh -c 'mount -t tmpfs none " +
                            hidden + " && exec \"$0\" \"$@\"' ";
  if (std::system((enter + "true 2>/dev/null").c_str()) != 0) { // NOLINT(concurrency-mt-unsafe)
    GTEST_SKIP() << "this system lets nobody make a mount namespace";
  }
  const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
  job_options options;
  options.targets = "exec:" + enter + fs::read_symlink("/proc/self/exe").string();
  options.host_files = hidden;
  job j(options);
  const auto use = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::vector<std::string> seen{content_of(fd)};
    std::ofstream(path + ".new") << "from the target";
    // The target's own view of the folder, by a call that the library does not intercept.
    seen.push_back(
        std::to_string(::syscall(SYS_symlinkat, "a", AT_FDCWD, (path + ".link").c_str())));
    return seen;
  };
  EXPECT_THAT(sync(j.targets().front(), use, tree / "in/a"), ElementsAre("from the host", "0"));
  EXPECT_EQ(content_of_file(tree / "in/a.new"), "from the target");
  EXPECT_FALSE(fs::exists(fs::symlink_status(tree / "in/a.link")));
}

} // namespace
} // namespace farcall::test
