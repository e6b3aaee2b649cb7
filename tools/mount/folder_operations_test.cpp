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

} // namespace
} // namespace farcall::test::folder_operations_test
