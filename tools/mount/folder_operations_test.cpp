// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of names in mounts, which the host or another program changes at the same time.
namespace farcall::test::folder_operations_test {
namespace {

namespace fs = std::filesystem;

class names_in_mounts : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, names_in_mounts, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(names_in_mounts, follow_renames_of_the_host_and_back) {
  write_file(in("f"), "x\n");
  EXPECT_EQ(shell("cat $I/f"), "x\n");
  fs::rename(in("f"), in("g"));
  EXPECT_EQ(shell("stat -c %s $I/g"), "2\n");
  fs::rename(in("g"), in("f"));
  EXPECT_EQ(shell("cat $I/f"), "x\n");
  // A link is the file's newest name, and is then removed by the host.
  fs::create_hard_link(in("f"), in("h"));
  EXPECT_EQ(shell("cat $I/h"), "x\n");
  fs::remove(in("h"));
  EXPECT_EQ(shell("stat $I/h > /dev/null 2>&1 || cat $I/f"), "x\n");
}

/// Lists a folder while two of its files are renamed and removed, which the system has not got yet.
/// Returns an empty text, or what is wrong.
std::string list_while_names_change(const std::string& folder) {
  std::vector<std::string> names;
  DIR* listed = ::opendir(folder.c_str());
  while (const dirent* const each = ::readdir(listed))
    names.emplace_back(each->d_name);
  ::closedir(listed);
  if (names.size() != 802) return std::to_string(names.size()) + " names";
  const std::string moved = folder + "/" + names[700];
  const std::string removed = folder + "/" + names[701];
  const std::string final = folder + "/final";
  listed = ::opendir(folder.c_str());
  if (::readdir(listed) == nullptr) return "readdir";
  if (::rename(moved.c_str(), final.c_str()) != 0 || ::unlink(removed.c_str()) != 0)
    return "rename";
  struct stat s{};
  while (const dirent* const each = ::readdir(listed))
    (void)::fstatat(::dirfd(listed), each->d_name, &s, AT_SYMLINK_NOFOLLOW);
  ::closedir(listed);
  if (::stat(removed.c_str(), &s) == 0) return "a removed file is there";
  if (::stat(moved.c_str(), &s) == 0) return "a renamed file is there";
  const unique_fd opened(::open(final.c_str(), O_RDONLY));
  return opened ? "" : "the renamed file cannot be opened";
}

TEST_P(names_in_mounts, are_not_taken_from_an_old_list) {
  for (int i = 0; i < 800; ++i)
    write_file(in("many/" + std::to_string(i)), "");
  EXPECT_EQ(sync(target_, list_while_names_change, in("many")), "");
}

int& kept_folder() {
  static int fd = -1;
  return fd;
}

TEST_P(names_in_mounts, are_not_looked_for_in_a_new_folder) {
  write_file(in("run/old"), "");
  const auto keep = +[](const std::string& path) {
    kept_folder() = ::open(path.c_str(), O_RDONLY | O_DIRECTORY);
    return kept_folder() < 0 ? errno : 0;
  };
  EXPECT_EQ(sync(target_, keep, in("run")), 0);
  fs::rename(in("run"), in("run.1"));
  write_file(in("run/new"), "");
  const auto open_again = +[] {
    const unique_fd again(::openat(kept_folder(), ".", O_RDONLY | O_DIRECTORY));
    return again ? 0 : errno;
  };
  EXPECT_EQ(sync(target_, open_again), ESTALE);
}

/// Host below whose prefix two other file systems are mounted, whose files have the same inodes.
/// Prints how many different inodes the target sees.
int host_with_other_file_systems() {
  const std::string in = std::string(std::getenv("FARCALL_TEST_TREE")) + "/in";
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", (in + "/a").c_str(), "tmpfs", 0, nullptr) != 0 ||
      ::mount("none", (in + "/b").c_str(), "tmpfs", 0, nullptr) != 0) {
    say("no mounts");
    return 0;
  }
  job_options options = with_targets("shm");
  options.host_files = in;
  job j(options);
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  say(sync(j.targets().front(), fn<&output_of>, tree,
           std::string("stat -c %i $I/a $I/b | sort -u | wc -l | tr -d '\\n'")));
  return 0;
}
const role the_host_with_other_file_systems("host with other file systems",
                                            host_with_other_file_systems);

TEST(mounts_of_several_file_systems, show_different_inodes) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  const scratch_tree tree;
  fs::create_directories(tree / "in/a");
  fs::create_directories(tree / "in/b");
  const scoped_variable where("FARCALL_TEST_TREE", fs::path(tree / ".").parent_path().c_str());
  const mounting_variables mounting;
  role_process host("host with other file systems");
  const std::string said = host.line();
  if (said == "no mounts") GTEST_SKIP() << "this user may mount nothing";
  EXPECT_EQ(said, "2");
}

} // namespace
} // namespace farcall::test::folder_operations_test
