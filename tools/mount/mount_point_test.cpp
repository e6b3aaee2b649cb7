// SPDX-License-Identifier: Apache-2.0
#include "mount_point.hpp"
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of places for mounts that this machine has not, in a namespace of their own.
namespace farcall::test::mount_point_test {
namespace {

namespace fs = std::filesystem;

int maker_of_a_mount_point() {
  mount::enter_own_namespace();
  mount::make_mount_point("/farcall no such/folder", true);
  mount::make_mount_point("/farcall no such/file", false);
  const bool is_made =
      fs::is_directory("/farcall no such/folder") && fs::is_regular_file("/farcall no such/file");
  const bool has_others = fs::exists("/proc/self/exe") && fs::exists("/dev/null") &&
                          fs::exists("/usr/bin/env") && fs::exists("/bin/sh");
  say(is_made && has_others ? "made" : "not made");
  return 0;
}
const role the_maker("maker of a mount point", maker_of_a_mount_point);

/// Returns what a role prints, or skips the test if this machine allows no mounts.
#define FARCALL_EXPECT_SAID(name, text)                                                            \
  if (const std::string why_not = why_no_mounts(); !why_not.empty())                               \
    GTEST_SKIP() << "this system allows no mounts: " << why_not;                                   \
  role_process process(name);                                                                      \
  EXPECT_EQ(process.line(), text)

TEST(places_of_mounts, may_be_at_new_paths_of_the_root_folder) {
  FARCALL_EXPECT_SAID("maker of a mount point", "made");
  EXPECT_FALSE(fs::exists("/farcall no such"));
}

std::string mode_and_owner(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return "none";
  std::ostringstream text;
  text << std::oct << (s.st_mode & 07777U) << std::dec << ' ' << s.st_uid << ' ' << s.st_gid << ' ';
  return text.str();
}

/// Covers a folder that has more entries than this process may have open.
int coverer_of_a_large_folder() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  mount::enter_own_namespace();
  const rlimit few{40, 40};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  mount::make_mount_point(tree + "/large/none/one", true);
  mount::make_mount_point(tree + "/large/none/two", true);
  mount::make_mount_point(tree + "/large/other", true);
  const auto entries = std::distance(fs::directory_iterator(tree + "/large"), {});
  std::ifstream mounts("/proc/self/mountinfo");
  int covers = 0;
  for (std::string line; std::getline(mounts, line);)
    covers += line.find(tree + "/large ") != std::string::npos ? 1 : 0;
  std::string said = mode_and_owner(tree + "/large") + std::to_string(entries) + " " +
                     std::to_string(covers) + " " + content_of_file(tree + "/large/50");
  mount::remove_covers();
  said += fs::exists(tree + "/large/none") ? " covered" : " as before";
  say(said);
  return 0;
}
const role the_coverer("coverer of a large folder", coverer_of_a_large_folder);

TEST(places_of_mounts, may_be_in_large_folders_of_other_users) {
  const scratch_tree tree;
  for (int i = 0; i < 100; ++i)
    write_file(tree / ("large/" + std::to_string(i)), "own");
  const bool is_given = ::chown((tree / "large").c_str(), 65534, 65534) == 0;
  ASSERT_EQ(::chmod((tree / "large").c_str(), 01777), 0);
  const scoped_variable where("FARCALL_TEST_TREE", fs::path(tree / ".").parent_path().c_str());
  const std::string before = mode_and_owner(tree / "large");
  EXPECT_TRUE(is_given || ::geteuid() != 0);
  FARCALL_EXPECT_SAID("coverer of a large folder", before + "102 1 own as before");
}

} // namespace
} // namespace farcall::test::mount_point_test
